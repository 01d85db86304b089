# SPDX-License-Identifier: Apache-2.0
"""Private database servers: on a free port, with their data in a temporary folder, gone when the tests are.

As root they are started as the users of their packages, which refuse to run as root. `--pdeathsig` ends them with the
thread that started them, even where its process was killed.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from sqlalchemy import create_engine, text

from roost.store.engine import parse_database_url
from roost.trial.private_servers import PostgresqlServer, as_user, find_program, free_port

START_SECONDS = 60
LIMITED_USER, LIMITED_PASSWORD = "roost", "not-easy-to-guess"


class Server:
    """A server process and its folder."""

    user: str
    stop_signal: signal.Signals
    own_database: str

    def __init__(self, is_durable: bool = False) -> None:
        """`is_durable`: a commit waits for the disk, as in production; tests that kill no server need not wait."""
        self.is_durable = is_durable
        self.folder = Path(tempfile.mkdtemp(prefix=f"roost-{self.user}-"))
        if os.geteuid() == 0:
            shutil.chown(self.folder, self.user, self.user)
        self.port = free_port()
        self.log = self.folder / "log"
        try:
            self.prepare()
            self.process = self.start(self.command())
            self.wait_until(self.is_ready)
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise

    def prepare(self) -> None:
        raise NotImplementedError

    def command(self) -> list[str]:
        raise NotImplementedError

    def is_ready(self) -> bool:
        raise NotImplementedError

    def as_user(self, command: Sequence[str]) -> list[str]:
        """The command as the server's user; it ends with this thread."""
        return as_user(self.user, self.folder, command, self.stop_signal.name)

    def run(self, command: Sequence[str]) -> None:
        done = subprocess.run(self.as_user(command), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def start(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(self.as_user(command), stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def wait_until(self, is_ready: Callable[[], bool]) -> None:
        give_up = time.monotonic() + START_SECONDS
        while not is_ready():
            assert self.process.poll() is None, self.log.read_text(errors="replace")
            assert time.monotonic() < give_up, f"not ready after {START_SECONDS} s"
            time.sleep(0.05)

    def stop(self) -> None:
        self.process.send_signal(self.stop_signal)
        self.process.wait(timeout=START_SECONDS)
        shutil.rmtree(self.folder, ignore_errors=True)

    def kill(self) -> None:
        """All of it at once: none of its processes gets to say or write another word."""
        main = self.process.pid
        os.kill(main, signal.SIGSTOP)  # it must neither start nor bury children while they are counted
        family = children_of(main)
        for pid in (*family, main):
            os.kill(pid, signal.SIGKILL)
        self.process.wait(timeout=START_SECONDS)
        give_up = time.monotonic() + START_SECONDS
        while any(is_alive(pid) for pid in family):
            assert time.monotonic() < give_up, "killed, and still there"
            time.sleep(0.005)

    def start_again(self) -> None:
        """After the process has ended: on the same data and port."""
        self.process = self.start(self.command())
        self.wait_until(self.is_ready)

    def restart(self) -> None:
        """Shut down in good order, and start on the same data and port."""
        self.process.send_signal(self.stop_signal)
        self.process.wait(timeout=START_SECONDS)
        self.start_again()

    def create_database(self, name: str) -> str:
        """The address of a new, empty database."""
        engine = create_engine(parse_database_url(self.address(self.own_database)), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name}"))
        engine.dispose()
        return self.address(name)

    def address(self, database: str) -> str:
        raise NotImplementedError


class PostgreSQL(Server):
    """Trusts everybody from this machine but the user who has a password."""

    user = own_database = "postgres"
    stop_signal = PostgresqlServer.stop_signal

    def prepare(self) -> None:
        self.server = PostgresqlServer(self.folder, self.port, is_durable=self.is_durable)
        self.run(self.server.initialise())
        self.command, self.is_ready, self.address = self.server.command, self.server.is_ready, self.server.address
        rules = self.server.data / "pg_hba.conf"
        rules.write_text(f"host all {LIMITED_USER} 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")


class MariaDB(Server):
    """Root has no password."""

    user = own_database = "mysql"
    stop_signal = signal.SIGTERM

    def prepare(self) -> None:
        # Root passes through setpriv: were mariadbd to change its user itself, the kernel would forget --pdeathsig.
        needed("mariadbd")
        install = [needed("mariadb-install-db"), "--no-defaults", f"--datadir={self.folder}/data"]
        install.append(f"--tmpdir={self.folder}")
        self.run([*install, "--auth-root-authentication-method=normal", "--skip-test-db"])

    def command(self) -> list[str]:
        files = [f"--datadir={self.folder}/data", f"--socket={self.folder}/s.sock", f"--pid-file={self.folder}/m.pid"]
        return [
            needed("mariadbd"),
            "--no-defaults",
            *files,
            f"--tmpdir={self.folder}",  # in a shared one, a server that starts deletes what others have there
            "--bind-address=127.0.0.1",
            f"--port={self.port}",
            "--skip-log-bin",
            f"--innodb-flush-log-at-trx-commit={int(self.is_durable)}",
        ]

    def is_ready(self) -> bool:
        address = ["-h", "127.0.0.1", "-P", str(self.port), "-u", "root"]
        asked = [needed("mariadb-admin"), "--no-defaults", *address, "ping"]
        return subprocess.run(asked, check=False, capture_output=True).returncode == 0

    def address(self, database: str, user: str = "root") -> str:
        return f"mysql+pymysql://{user}@127.0.0.1:{self.port}/{database}"


def needed(program: str) -> str:
    """Where a program of MariaDB is. A server that is missing is an error: `make test` installs it."""
    return find_program(program, "mariadb-server")


def children_of(parent: int) -> list[int]:
    """Its processes. Those of PostgreSQL lead groups of their own, so a signal to the group would not reach them."""
    return [
        pid for pid in (int(path.name) for path in Path("/proc").glob("[0-9]*")) if _stat(pid)[1:2] == [str(parent)]
    ]


def is_alive(pid: int) -> bool:
    """One that is dead, and that nobody has asked about yet, is not."""
    return _stat(pid)[:1] not in ([], ["Z"])


def _stat(pid: int) -> list[str]:
    """State, parent and more; nothing where there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []
