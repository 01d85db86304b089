# SPDX-License-Identifier: Apache-2.0
"""The folders in which clouds on trial keep their state: of a cluster, and of `roost dev`.

A cluster's has its processes (cluster.json), pid files, logs, configuration, data of its servers. That of `roost dev`
is for one process at a time, locked by a file that names it:

| file | what it is |
| --- | --- |
| `roost-dev.lock` | locked by the running process, and has its pid; it marks the folder as one of `roost dev` |
| `cloud.json` | what the cloud was set up with; written when the set-up is complete |
| `roost.sqlite` | the database |
| `guests/` | the guests of the fake hypervisors |
| `clouds.yaml` | addresses and passwords for `openstack` |
| `roost.sock` | the socket for other processes of the user |
| `roost.log` | the log of all services, since the last start |
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

import roost
from roost.errors import BadInput
from roost.messages.loopback import (
    LONGEST_PATH_BYTES,
    OTHER_FOLDER,
    SOCKET_NAME,
    claim_folder,
    default_state_directory,
    take_lock,
    user_state_folder,
    with_state_dir,
    write_in_one_step,
)
from roost.trial.process import ProcessPlan, Started

FORMAT = 1
"""Version of cluster.json; a folder of another version is refused."""
CLUSTER_LOCK = "lock"


class PidFile(NamedTuple):
    """What the pid file of a process says."""

    process: Started
    since: datetime


def default_state_folder() -> Path:
    """`roost/cluster` in the folder for state of the user; of the machine if the user is root.

    The servers of a cluster have users of their own, which cannot enter the home of root.
    """
    return user_state_folder(usual=Path("/var/lib") if os.geteuid() == 0 else None) / "roost/cluster"


class StateFolder:
    """Reads and writes the files of one cluster."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.config, self.logs, self.data = self.path / "roost.conf", self.path / "logs", self.path / "data"
        self.clouds_file = self.path / "clouds.yaml"
        """Addresses and passwords of the API, as `openstack` reads them."""
        self._pids, self._configs = self.path / "pids", self.path / "conf"
        self._manifest = self.path / "cluster.json"

    def command(self, words: str) -> str:
        """`roost cluster` with these words, for this folder: a command for people to type."""
        return with_state_dir(f"roost cluster {words}", self.path, default_state_folder())

    def claim(self) -> None:
        """Make the folder if there is none. BadInput if it has files that are not those of a cluster.

        Without cluster.json, which is written before all other files, only an empty folder is accepted.
        """
        claim_folder(self.path, "roost cluster", 0o755, CLUSTER_LOCK, self._has_manifest)

    def _has_manifest(self) -> bool:
        """Whether cluster.json is that of a cluster, of whatever version; BadInput if it cannot be read."""
        try:
            record = json.loads(self._manifest.read_text(encoding="utf-8"))
        except PermissionError:
            raise BadInput(f"{self._manifest} cannot be read", "it is of another user: use that one") from None
        except (OSError, ValueError):
            return False
        return isinstance(record, dict) and "format" in record

    def create(self) -> None:
        """Make the folders that are missing in a claimed folder."""
        for folder in (self.path, self.logs, self._pids, self._configs, self.data):
            folder.mkdir(parents=True, exist_ok=True, mode=0o755)

    def remove(self) -> None:
        """Delete data, logs and configuration; not while processes run. BadInput if something cannot be deleted.

        cluster.json goes last: what is left after a failure is still the folder of a cluster.
        """
        for each in (self.logs, self._pids, self._configs, self.data, self.config, self.clouds_file, self._manifest):
            try:
                if each in (self.config, self.clouds_file, self._manifest):
                    each.unlink(missing_ok=True)
                elif os.path.lexists(each):
                    shutil.rmtree(each)
            except OSError as error:
                problem = f"{error.filename or each} cannot be deleted: {error.strerror or error}"
                raise BadInput(problem, "delete it, then start again") from None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Context in which no other command starts or stops processes of this cluster."""
        lock = take_lock(self.path / CLUSTER_LOCK, self._is_busy)
        try:
            yield
        finally:
            os.close(lock)

    def _is_busy(self, pid: str) -> BadInput:
        return BadInput(f"another roost cluster command is at work in {self.path}, process {pid}", "wait for it")

    # --- what the cluster consists of --------------------------------------------------------------------

    def save(self, plans: Sequence[ProcessPlan], facts: Mapping[str, Any]) -> None:
        """Write the processes, in the order in which they start, and facts to be kept: ports and passwords."""
        record = {"format": FORMAT, "facts": dict(facts), "processes": [each.to_json() for each in plans]}
        write_in_one_step(self._manifest, json.dumps(record, indent=1) + "\n")

    def plans(self) -> list[ProcessPlan]:
        """The processes of the cluster, in the order in which they start. BadInput if there is no cluster here."""
        record = self._read()
        if record is None:
            raise BadInput(f"there is no cluster in {self.path}", f"`{self.command('start')}` makes one")
        return [ProcessPlan.from_json(each) for each in record["processes"]]

    def facts(self) -> dict[str, Any]:
        """What `save` kept; empty if there is no cluster here yet."""
        record = self._read()
        return {} if record is None else dict(record["facts"])

    def _read(self) -> dict[str, Any] | None:
        try:
            record: dict[str, Any] = json.loads(self._manifest.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except PermissionError:
            raise BadInput(f"{self._manifest} cannot be read", "it is of another user: use that one") from None
        except ValueError:
            record = {}
        if record.get("format") != FORMAT:
            raise BadInput(
                f"{self._manifest} is not of this version of Roost",
                f"start once with `{self.command('start --fresh')}`",
            )
        return record

    # --- files of one process ----------------------------------------------------------------------------

    def log(self, name: str) -> Path:
        """Log file of a process."""
        return self.logs / f"{name}.log"

    def config_of(self, name: str) -> Path:
        """File with the configuration that only this process has."""
        return self._configs / f"{name}.conf"

    def note_started(self, name: str, process: Started, since: datetime) -> None:
        """Write the pid file of a process."""
        record = {"pid": process.pid, "start_time": process.start_time, "since": since.isoformat()}
        self._pid_file(name).write_text(json.dumps(record) + "\n", encoding="utf-8")

    def started(self, name: str) -> PidFile | None:
        """What the pid file of a process says; None without a readable one."""
        try:
            record = json.loads(self._pid_file(name).read_text(encoding="utf-8"))
            started = Started(int(record["pid"]), str(record["start_time"]))
            return PidFile(started, datetime.fromisoformat(record["since"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def started_names(self) -> list[str]:
        """Names of the processes that have a pid file."""
        return sorted(each.name for each in self._pids.glob("*"))

    def forget(self, name: str) -> None:
        """Remove the pid file of a process."""
        self._pid_file(name).unlink(missing_ok=True)

    def _pid_file(self, name: str) -> Path:
        return self._pids / name


DEV_LOCK = "roost-dev.lock"
"""Layout of the folder; a newer one is refused."""


class StateDirectory:
    """A folder of `roost dev`, locked from `open` to `close`."""

    def __init__(self, path: Path, lock: int) -> None:
        """`lock`: descriptor of the locked file. Use `open`."""
        self.path, self._lock = path, lock

    @classmethod
    def open(cls, path: Path, is_fresh: bool = False) -> Self:
        """Lock the folder, make it where it does not exist, and check it or, with `is_fresh`, empty it."""
        state = cls.lock(path)
        try:
            state.prepare(is_fresh)
        except BaseException:
            state.close()
            raise
        return state

    @classmethod
    def lock(cls, path: Path) -> Self:
        """Lock the folder, and make it where it does not exist; other users cannot enter it.

        What is there stays until `prepare`, so that all else can be checked before. BadInput for a folder that cannot
        be used, is not one of `roost dev`, or is in use.
        """
        path = Path(os.path.abspath(path))
        with _as_bad_input(path):
            _check_length(path)
            claim_folder(path, "roost dev", 0o700, DEV_LOCK, (path / DEV_LOCK).exists)
            path.chmod(0o700)  # it may have existed
            return cls(path, take_lock(path / DEV_LOCK, partial(_is_in_use, path)))

    def prepare(self, is_fresh: bool = False) -> None:
        """Check that this version of Roost can use what is there. `is_fresh`: first remove what another run left."""
        with _as_bad_input(self.path):
            if is_fresh:
                self._clear()
            self._check_format()

    def close(self) -> None:
        """Unlock the folder."""
        os.close(self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def fresh_command(self) -> str:
        """The command that removes this state, and no other, and begins anew."""
        return with_state_dir("roost dev --fresh", self.path, default_state_directory())

    @property
    def database_file(self) -> Path:
        """The SQLite database."""
        return self.path / "roost.sqlite"

    @property
    def guest_folder(self) -> Path:
        """Guests of the fake hypervisors."""
        return self.path / "guests"

    @property
    def clouds_file(self) -> Path:
        """Addresses and passwords, as `openstack` reads them."""
        return self.path / "clouds.yaml"

    @property
    def socket(self) -> Path:
        """The socket for other processes."""
        return self.path / SOCKET_NAME

    @property
    def log_file(self) -> Path:
        """The log of all services."""
        return self.path / "roost.log"

    def new_log_file(self) -> Path:
        """The log file, after the one of an earlier start was removed."""
        with _as_bad_input(self.path):
            self.log_file.unlink(missing_ok=True)
        return self.log_file

    @property
    def _facts_file(self) -> Path:
        return self.path / "cloud.json"

    def read_facts(self) -> dict[str, Any]:
        """What `write_facts` has written; empty where the set-up has not been completed."""
        try:
            found = json.loads(self._facts_file.read_bytes())
        except FileNotFoundError:
            return {}
        except ValueError:
            raise BadInput(f"{self._facts_file}: the file is damaged", f"begin anew: {self.fresh_command}") from None
        return found if isinstance(found, dict) else {}

    def count_hosts(self, wanted: int | None, usual: int) -> int:
        """How many hosts the cloud has, or will have; BadInput where another number of them is wanted."""
        count: int = self.read_facts().get("hosts", wanted or usual)
        if wanted not in (None, count):
            problem = f"{self.path}: the cloud there has {count} hosts, not {wanted}"
            raise BadInput(problem, f"leave out --hosts, or begin anew: {self.fresh_command} --hosts {wanted}")
        return count

    def write_facts(self, facts: Mapping[str, Any]) -> None:
        """Record what the cloud was set up with: the set-up is complete."""
        write_json(self._facts_file, {"format": FORMAT, "roost": roost.__version__, **facts})

    def _check_format(self) -> None:
        facts = self.read_facts()
        if facts.get("format", FORMAT) != FORMAT:
            problem = f"{self.path}: the state was made by Roost {facts.get('roost')}, this is {roost.__version__}"
            raise BadInput(problem, f"use that version, or begin anew: {self.fresh_command}")

    def _clear(self) -> None:
        for entry in self.path.iterdir():
            if entry.name == DEV_LOCK:
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()


@contextmanager
def temporary_state() -> Iterator[StateDirectory]:
    """A state directory that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="roost-dev-") as folder, StateDirectory.open(Path(folder)) as state:
        yield state


def write_json(path: Path, record: Mapping[str, Any]) -> None:
    """Write a file in one step: a reader sees all of it or none. BadInput where that is not possible."""
    with _as_unwritable(path):
        write_in_one_step(path, f"{json.dumps(record, indent=2)}\n")


def check_writable(path: Path) -> None:
    """BadInput where `write_json` could not write the file, which stays as it is."""
    with _as_unwritable(path), tempfile.TemporaryFile(dir=path.parent):
        pass


@contextmanager
def _as_unwritable(path: Path) -> Iterator[None]:
    if path.exists() and not path.is_file():
        raise BadInput(f"{path}: is no regular file", "name another one")
    if not path.parent.is_dir():
        raise BadInput(f"{path}: there is no folder {path.parent}", "make it first")
    try:
        yield
    except OSError as error:
        raise BadInput(f"{path}: cannot be written: {error.strerror}", "name another one, or make room") from None


@contextmanager
def _as_bad_input(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        where = error.filename or path
        raise BadInput(
            f"{where}: cannot be used: {error.strerror}", "name another one that can be written, or make room"
        ) from None


def _check_length(path: Path) -> None:
    size = len(os.fsencode(path / SOCKET_NAME))
    if size > LONGEST_PATH_BYTES:
        problem = f"{path}: the path is {size - LONGEST_PATH_BYTES} bytes too long for a socket in it"
        raise BadInput(problem, OTHER_FOLDER)


def _is_in_use(path: Path, pid: str) -> BadInput:
    hint = f"end it with Ctrl-C or kill {pid}, or {OTHER_FOLDER}"
    return BadInput(f"{path}: another roost dev is running there, process {pid}", hint)
