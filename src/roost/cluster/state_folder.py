# SPDX-License-Identifier: Apache-2.0
"""The folder of a cluster: its processes (cluster.json), pid files, logs, configuration, data of its servers."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from roost.cluster.process import ProcessPlan, Started
from roost.errors import BadInput
from roost.messages.loopback import claim_folder, take_lock, user_state_folder, with_state_dir, write_in_one_step

FORMAT = 1
"""Version of cluster.json; a folder of another version is refused."""
LOCK_NAME = "lock"


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
        claim_folder(self.path, "roost cluster", 0o755, LOCK_NAME, self._has_manifest)

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
        lock = take_lock(self.path / LOCK_NAME, self._is_busy)
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
