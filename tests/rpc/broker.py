# SPDX-License-Identifier: Apache-2.0
"""A private RabbitMQ: on free ports of the loopback, with its data in a temporary folder, gone when the tests are."""

import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import trustme
from tests.store.servers import Server, free_port, needed

PROGRAM = "/usr/lib/rabbitmq/bin/rabbitmq-server"


class RabbitMQ(Server):
    """One node. Users and rights are those of a fresh one: guest, from this machine."""

    user = "rabbitmq"
    stop_signal = signal.SIGTERM

    def prepare(self) -> None:
        if not Path(PROGRAM).exists():
            needed("rabbitmq-server")  # says what to do
        self.names_port, self.distribution_port, self.tls_port = free_port(), free_port(), free_port()
        self.authority = trustme.CA()
        own = self.authority.issue_cert("localhost")
        settings = {
            "listeners.tcp.default": f"127.0.0.1:{self.port}",
            "listeners.ssl.default": f"127.0.0.1:{self.tls_port}",
            "ssl_options.cacertfile": self._write("ca.pem", self.authority.cert_pem.bytes().decode()),
            "ssl_options.certfile": self._write("cert.pem", own.cert_chain_pems[0].bytes().decode()),
            "ssl_options.keyfile": self._write("key.pem", own.private_key_pem.bytes().decode()),
            "log.file.level": "warning",
        }
        self._write("rabbitmq.conf", "".join(f"{name} = {value}\n" for name, value in settings.items()))
        self._write("enabled_plugins", "[].")
        self._write(".erlang.cookie", "roosttests").chmod(0o400)
        # Erlang's directory of names. Were it left to the broker to start it, it would outlive us.
        directory = [needed("epmd"), "-port", str(self.names_port), "-address", "127.0.0.1"]
        self.names = self.start(directory)

    def _write(self, name: str, text: str) -> Path:
        file = self.folder / name
        file.write_text(text)
        if os.geteuid() == 0:
            shutil.chown(file, self.user, self.user)
        return file

    def command(self) -> list[str]:
        folder = self.folder
        settings = {
            "HOME": folder,
            "RABBITMQ_NODENAME": f"roost{self.port}@localhost",
            "RABBITMQ_NODE_PORT": self.port,
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_DIST_PORT": self.distribution_port,
            "RABBITMQ_MNESIA_BASE": folder / "mnesia",
            "RABBITMQ_LOG_BASE": folder / "logs",
            "RABBITMQ_CONFIG_FILE": folder / "rabbitmq",
            "RABBITMQ_ENABLED_PLUGINS_FILE": folder / "enabled_plugins",
            "RABBITMQ_PID_FILE": folder / "pid",
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "ERL_EPMD_PORT": self.names_port,
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        }
        return ["env", *(f"{name}={value}" for name, value in settings.items()), PROGRAM]

    def is_ready(self) -> bool:
        with socket.socket() as attempt:
            return attempt.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self) -> None:
        if self.process.poll() is None:
            super().stop()
        self.names.send_signal(signal.SIGTERM)
        self.names.wait(timeout=10)
        shutil.rmtree(self.folder, ignore_errors=True)

    def address(self, database: str = "") -> str:
        return f"rabbit://guest:guest@127.0.0.1:{self.port}/{database}"

    def tls_address(self) -> str:
        return f"rabbit://guest:guest@localhost:{self.tls_port}/"

    def control(self, *words: str) -> str:
        """rabbitmqctl; takes seconds."""
        home = [word for word in self.command()[1:-1] if word.startswith(("HOME", "ERL_", "RABBITMQ_NODENAME"))]
        command = self.as_user(["env", *home, "/usr/lib/rabbitmq/bin/rabbitmqctl", *words])
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
