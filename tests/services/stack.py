# SPDX-License-Identifier: Apache-2.0
"""Real schedulers as an operator runs them: processes of their own on a real broker and a real database."""

import contextlib
import io
import itertools
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import yaml

from roost.cli.main import main
from roost.messages.objects.to_objects import NovaObjects
from roost.messages.open_transport import open_transport
from roost.messages.options import RpcOptions
from roost.messages.scheduler_client import SchedulerClient
from roost.trial.private_servers import free_port

ROOST = [sys.executable, "-m", "roost"]
READY_SECONDS = 60
TOPICS = itertools.count(1)


class Scheduler:
    """One `roost service scheduler`."""

    def __init__(self, folder, number, port, *configs):
        self.port, self.log = port, folder / f"scheduler{number}.log"
        files = [word for config in configs for word in ("--config-file", str(config))]
        self._command = [*ROOST, "service", "scheduler", *files]
        self._environment = os.environ | {"ROOST_TEST": "1"}
        self.start()

    def start(self):
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment
            )

    def get(self, path):
        """Status and text of an answer over HTTP; 0 where there is no answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as answer:
            return answer.code, answer.read().decode()
        except OSError:
            return 0, ""

    def wait_until_ready(self, seconds=READY_SECONDS):
        give_up = time.monotonic() + seconds
        while self.get("/readyz")[0] != 200:
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < give_up, self.get("/readyz")[1] + self.log.read_text()[-3000:]
            time.sleep(0.05)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        """Gracefully; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)


class Stack:
    """A database with a fleet, a queue of its own on the broker, and schedulers on both."""

    def __init__(self, folder: Path, broker_address: str, database: str, fleet, config="", exchange=""):
        """`config`: more lines for the config file.

        Stacks that run on one broker at the same time need a `scheduler_topic` each, too: queues of one name are one
        queue, whatever the exchange.
        """
        self.folder, self.database, self.broker_address = folder, database, broker_address
        self.exchange = exchange or f"roost_{os.getpid()}_{next(TOPICS)}"
        self.schedulers: list[Scheduler] = []
        self._more = config
        self.config = self._write_config("roost.conf", 0)
        fleet_file = folder / "fleet.json"
        fleet_file.write_text(json.dumps(fleet) if not isinstance(fleet, str) else fleet)
        self.run("db", "upgrade")
        self.run("fleet", "import", str(fleet_file))
        options = RpcOptions(transport_url=broker_address, control_exchange=self.exchange)
        self.transport = open_transport(options, [self.config])

    def _write_config(self, name, port, more=""):
        file = self.folder / name
        file.write_text(
            f"[DEFAULT]\ntransport_url = {self.broker_address}\ncontrol_exchange = {self.exchange}\n"
            f"{self._more}\n[database]\nconnection = {self.database}\n[roost]\nhealth_port = {port}\n{more}\n"
        )
        return file

    def run(self, *words, code=0):
        """A roost command on this stack's database, in this process; what it prints."""
        printed, complaints = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(complaints):
            found = main([*words, "--config-file", str(self.config)])
        assert found == code, complaints.getvalue() + printed.getvalue()
        return printed.getvalue()

    def audit(self):
        """What the audit of the ledger finds."""
        return yaml.safe_load(self.run("ledger", "audit", "-f", "json"))

    def add_schedulers(self, count, more=""):
        """Start so many, and come back when all are ready. `more`: lines for their config, in section roost."""
        first = len(self.schedulers) + 1
        for number in range(first, first + count):
            port = free_port()
            config = self._write_config(f"scheduler{number}.conf", port, more)
            self.schedulers.append(Scheduler(self.folder, number, port, config))
        for scheduler in self.schedulers:
            scheduler.wait_until_ready()

    def client(self, **options):
        """The caller's side."""
        return SchedulerClient(self.transport, NovaObjects(), RpcOptions(**options))

    def close(self):
        self.transport.close()
        for scheduler in self.schedulers:
            scheduler.stop()


def small_fleet(hosts=20, **more):
    """Hosts of one kind."""
    usual = {"vcpus_total": 64, "total_usable_ram_mb": 262144, "total_usable_disk_gb": 4000}
    usual |= {"supported_instances": [["x86_64", "qemu", "hvm"]], **more}
    return {"hosts": [{"host": f"cn{number:05}", **usual} for number in range(hosts)]}
