# SPDX-License-Identifier: Apache-2.0
"""A private RabbitMQ: on free ports of the loopback, with its data in a temporary folder, gone when the tests are."""

import shutil
import signal
import subprocess
from pathlib import Path

import trustme
from tests.store.servers import Server

from roost.trial.private_servers import RabbitmqServer, free_port, write_for


class RabbitMQ(Server):
    """One node. Users and rights are those of a fresh one: guest, from this machine."""

    user, stop_signal = RabbitmqServer.user, RabbitmqServer.stop_signal

    def prepare(self) -> None:
        self.server = RabbitmqServer(self.folder, self.port, free_port(), free_port())
        self.command, self.is_ready, self.address = self.server.command, self.server.is_ready, self.server.address
        self.tls_port, self.authority = free_port(), trustme.CA()
        own = self.authority.issue_cert("localhost")
        tls = {
            "listeners.ssl.default": f"127.0.0.1:{self.tls_port}",
            "ssl_options.cacertfile": self._write("ca.pem", self.authority.cert_pem.bytes().decode()),
            "ssl_options.certfile": self._write("cert.pem", own.cert_chain_pems[0].bytes().decode()),
            "ssl_options.keyfile": self._write("key.pem", own.private_key_pem.bytes().decode()),
        }
        self.server.write_files("roosttests", tls)
        self.names = self.start(self.server.names_command())

    def _write(self, name: str, text: str) -> Path:
        return write_for(self.user, self.folder / name, text)

    def stop(self) -> None:
        if self.process.poll() is None:
            super().stop()
        self.names.send_signal(signal.SIGTERM)
        self.names.wait(timeout=10)
        shutil.rmtree(self.folder, ignore_errors=True)

    def tls_address(self) -> str:
        return f"rabbit://guest:guest@localhost:{self.tls_port}/"

    def control(self, *words: str) -> str:
        """rabbitmqctl; takes seconds."""
        command = self.as_user(self.server.control_command(*words))
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
