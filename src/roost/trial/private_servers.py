# SPDX-License-Identifier: Apache-2.0
"""PostgreSQL and RabbitMQ with their data in one folder, on ports of the loopback, for one user of this machine.

A class here knows files, command and address of a server. It starts nothing: who does decides how long it lives.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from roost.errors import BadInput

LOOPBACK = "127.0.0.1"
RABBITMQ_PROGRAM = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
DEBIAN_POSTGRESQL = Path("/usr/lib/postgresql")


def free_port() -> int:
    """A port of the loopback on which nothing listens now."""
    with socket.create_server((LOOPBACK, 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


def is_listening(port: int) -> bool:
    """Whether something accepts connections on a port of the loopback."""
    with socket.socket() as attempt:
        return attempt.connect_ex((LOOPBACK, port)) == 0


def find_program(program: str, package: str) -> str:
    """Path of a program. BadInput names the Debian package if it is not installed."""
    found = shutil.which(program, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/bin")
    if found is None:
        raise BadInput(f"{program} is not installed", f"Debian has it in the package {package}")
    return found


def find_postgresql() -> Path:
    """Folder of the programs of the newest PostgreSQL; Debian keeps them off the path, by version."""
    versions = sorted(DEBIAN_POSTGRESQL.glob("*/bin/initdb"), key=lambda path: int(path.parent.parent.name))
    return versions[-1].parent if versions else Path(find_program("initdb", "postgresql")).parent


def as_user(user: str, folder: Path, command: Sequence[str], death_signal: str = "") -> list[str]:
    """The command, as this user if root gives it, in a folder that the user can read.

    The servers refuse to run as root. `death_signal`: sent to the command when the thread that started it ends.
    """
    if os.geteuid() != 0:
        return list(command)
    identity = [f"--reuid={user}", f"--regid={user}", "--clear-groups"]
    ends = ["--pdeathsig", death_signal] if death_signal else []
    return ["setpriv", *identity, *ends, "env", "-C", str(folder), *command]


class PostgresqlServer:
    """Files and commands of a PostgreSQL."""

    user, package, stop_signal = "postgres", "postgresql", signal.SIGINT  # SIGINT: does not wait for clients

    def __init__(self, folder: Path, port: int, *, password: str = "", is_durable: bool = True) -> None:
        """`password` of the user postgres; empty: every user of this machine is trusted.

        `is_durable`: a commit waits for the disk.
        """
        self.folder, self.port, self._password, self._is_durable = folder, port, password, is_durable
        self.data, self.programs = folder / "data", find_postgresql()
        self.password_file = folder / "password"
        """Written for initdb, which is given a password; not needed afterwards."""

    def initialise(self) -> list[str]:
        """The command that makes the data folder."""
        options = ["-U", self.user, "--no-sync", "-E", "UTF8", "--locale=C.UTF-8"]
        if self._password:
            write_for(self.user, self.password_file, self._password)
            options += ["-A", "scram-sha-256", f"--pwfile={self.password_file}"]
        else:
            options += ["-A", "trust"]
        return [f"{self.programs}/initdb", "-D", str(self.data), *options]

    def command(self) -> list[str]:
        """The command that runs the server."""
        settings = {
            "listen_addresses": LOOPBACK,
            "unix_socket_directories": self.folder,
            "max_connections": 500,
            **dict.fromkeys(("fsync", "synchronous_commit", "full_page_writes"), "on" if self._is_durable else "off"),
        }
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return [f"{self.programs}/postgres", "-D", str(self.data), "-p", str(self.port), *words]

    def ready_command(self) -> list[str]:
        """A command that succeeds as soon as the server accepts connections."""
        return [f"{self.programs}/pg_isready", "-q", "-h", LOOPBACK, "-p", str(self.port)]

    def is_ready(self) -> bool:
        """Whether it accepts connections."""
        return subprocess.run(self.ready_command(), check=False).returncode == 0  # noqa: S603

    def address(self, database: str, user: str = "postgres") -> str:
        """URL of one of its databases."""
        login = f"{user}:{self._password}" if self._password else user
        return f"postgresql://{login}@{LOOPBACK}:{self.port}/{database}"


class RabbitmqServer:
    """Files and commands of a RabbitMQ of one node, and of epmd, which Erlang needs beside it.

    Were it left to the broker to start epmd, epmd would outlive it.
    """

    user, package, stop_signal = "rabbitmq", "rabbitmq-server", signal.SIGTERM

    def __init__(
        self, folder: Path, port: int, names_port: int, distribution_port: int, *, password: str = ""
    ) -> None:
        """`names_port`: of epmd. `distribution_port`: by which nodes and rabbitmqctl talk.

        `password` of the user guest; empty: RabbitMQ's own default.
        """
        self.folder, self.port, self._password = folder, port, password or "guest"
        self._names_port, self._distribution_port = names_port, distribution_port
        if not RABBITMQ_PROGRAM.exists():
            raise BadInput("rabbitmq-server is not installed", f"Debian has it in the package {self.package}")

    def write_files(self, cookie: str, settings: Mapping[str, object] | None = None) -> None:
        """Write its configuration. `cookie`: who knows it may control the node. `settings`: more of rabbitmq.conf."""
        wanted = {
            "listeners.tcp.default": f"{LOOPBACK}:{self.port}",
            "default_pass": self._password,
            "log.file.level": "warning",
            **(settings or {}),
        }
        text = "".join(f"{name} = {value}\n" for name, value in wanted.items())
        write_for(self.user, self.folder / "rabbitmq.conf", text)
        write_for(self.user, self.folder / "enabled_plugins", "[].")
        write_for(self.user, self.folder / ".erlang.cookie", cookie, 0o400)

    def names_command(self) -> list[str]:
        """The command that runs epmd, Erlang's directory of nodes."""
        return [find_program("epmd", "erlang-base"), "-port", str(self._names_port), "-address", LOOPBACK]

    def command(self) -> list[str]:
        """The command that runs the broker."""
        return ["env", *(f"{name}={value}" for name, value in self._environment().items()), str(RABBITMQ_PROGRAM)]

    def control_command(self, *words: str) -> list[str]:
        """A command of rabbitmqctl, which takes seconds."""
        program = str(RABBITMQ_PROGRAM.with_name("rabbitmqctl"))
        needs = {
            name: value
            for name, value in self._environment().items()
            if name.startswith(("HOME", "ERL_", "RABBITMQ_NODENAME"))
        }
        return ["env", *(f"{name}={value}" for name, value in needs.items()), program, *words]

    def is_ready(self) -> bool:
        """Whether it accepts connections."""
        return is_listening(self.port)

    def address(self, virtual_host: str = "") -> str:
        """URL of one of its virtual hosts."""
        return f"rabbit://guest:{self._password}@{LOOPBACK}:{self.port}/{virtual_host}"

    def _environment(self) -> dict[str, object]:
        folder = self.folder
        return {
            "HOME": folder,
            "RABBITMQ_NODENAME": f"roost{self.port}@localhost",
            "RABBITMQ_NODE_PORT": self.port,
            "RABBITMQ_NODE_IP_ADDRESS": LOOPBACK,
            "RABBITMQ_DIST_PORT": self._distribution_port,
            "RABBITMQ_MNESIA_BASE": folder / "mnesia",
            "RABBITMQ_LOG_BASE": folder / "logs",
            "RABBITMQ_CONFIG_FILE": folder / "rabbitmq",
            "RABBITMQ_ENABLED_PLUGINS_FILE": folder / "enabled_plugins",
            "RABBITMQ_PID_FILE": folder / "pid",
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "ERL_EPMD_PORT": self._names_port,
            "ERL_EPMD_ADDRESS": LOOPBACK,
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        }


def write_for(user: str, file: Path, text: str, mode: int = 0o600) -> Path:
    """Write a file that only this user can read, or only the present one if that is not root."""
    file.unlink(missing_ok=True)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as target:
        target.write(text)
    if os.geteuid() == 0:
        shutil.chown(file, user, user)
    return file
