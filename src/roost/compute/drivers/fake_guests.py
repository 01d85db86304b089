# SPDX-License-Identifier: Apache-2.0
"""The guests of fake hypervisors: in memory, or as files that outlive the process and that other processes see."""

from __future__ import annotations

import json
import os
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import quote, unquote

from roost.errors import HypervisorError
from roost.records.server import RUNNING

_SUFFIX = ".json"


@dataclass(frozen=True)
class FakeGuest:
    """A guest on a fake hypervisor."""

    uuid: str
    name: str
    power_state: str = RUNNING
    vcpus: int = 0
    memory_mb: int = 0
    is_own: bool = True


class _Guests(Protocol):
    """Guests by host and uuid."""

    def read(self, host: str) -> dict[str, FakeGuest]:
        """Uuid -> guest, of one host."""

    def hosts(self) -> list[str]:
        """Hosts that have had a guest."""

    def put(self, host: str, guest: FakeGuest) -> None:
        """Add a guest, or replace the one with its uuid."""

    def remove(self, host: str, uuid: str) -> None:
        """Remove a guest; no error if it is not there."""

    def move(self, uuid: str, source: str, target: str) -> None:
        """Move a guest in one step: it is never on both hosts, and never on none."""


class _GuestsInMemory:
    def __init__(self) -> None:
        self._guests: dict[str, dict[str, FakeGuest]] = defaultdict(dict)

    def read(self, host: str) -> dict[str, FakeGuest]:
        return dict(self._guests[host])

    def hosts(self) -> list[str]:
        return sorted(self._guests)

    def put(self, host: str, guest: FakeGuest) -> None:
        self._guests[host][guest.uuid] = guest

    def remove(self, host: str, uuid: str) -> None:
        self._guests[host].pop(uuid, None)

    def move(self, uuid: str, source: str, target: str) -> None:
        self._guests[target][uuid] = self._guests[source].pop(uuid)


class _GuestsInFiles:
    """One file per guest, FOLDER/HOST/UUID.json; each change is one rename, so a kill leaves no half of it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, host: str) -> dict[str, FakeGuest]:
        found = {}
        for path in self._folder_of(host).glob(f"*{_SUFFIX}"):
            try:
                guest = FakeGuest(**json.loads(path.read_text()))
            except FileNotFoundError:  # removed meanwhile
                continue
            found[guest.uuid] = guest
        return found

    def hosts(self) -> list[str]:
        return sorted(unquote(each.name) for each in self._folder.iterdir()) if self._folder.is_dir() else []

    def put(self, host: str, guest: FakeGuest) -> None:
        path = self._path(host, guest.uuid)
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
        unfinished.write_text(json.dumps(asdict(guest)))
        unfinished.replace(path)

    def remove(self, host: str, uuid: str) -> None:
        self._path(host, uuid).unlink(missing_ok=True)

    def move(self, uuid: str, source: str, target: str) -> None:
        path = self._path(target, uuid)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path(source, uuid).replace(path)

    def _folder_of(self, host: str) -> Path:
        return self._folder / quote(host, safe="")

    def _path(self, host: str, uuid: str) -> Path:
        return self._folder_of(host) / f"{quote(uuid, safe='')}{_SUFFIX}"


class FakeHypervisors:
    """All fake hosts that can migrate to one another. Thread-safe; several processes may share a folder."""

    def __init__(self, folder: Path | None = None) -> None:
        """`folder`: where guests are kept as files, so that they outlive this process; None: in memory."""
        self._lock = threading.Lock()
        self._guests: _Guests = _GuestsInMemory() if folder is None else _GuestsInFiles(folder)
        self.name = f"memory of process {os.getpid()}" if folder is None else str(folder.absolute())
        """Says to a host that wants to migrate a guest whether it has the same hypervisors."""

    def guests_on(self, host: str) -> dict[str, FakeGuest]:
        """Uuid -> guest, of one host."""
        with self._guarded():
            return self._guests.read(host)

    def all_guests(self) -> Mapping[str, dict[str, FakeGuest]]:
        """Host -> uuid -> guest, of all hosts that have one: what really runs, whatever the database says."""
        with self._guarded():
            found = {host: self._guests.read(host) for host in self._guests.hosts()}
        return {host: guests for host, guests in found.items() if guests}

    def put(self, host: str, guest: FakeGuest) -> None:
        """Add a guest, or replace the one with its uuid."""
        with self._guarded():
            self._guests.put(host, guest)

    def remove(self, host: str, uuid: str) -> None:
        """Remove a guest; no error if it is not there."""
        with self._guarded():
            self._guests.remove(host, uuid)

    def move(self, uuid: str, source: str, target: str) -> None:
        """Move a guest in one step: it is never on both hosts, and never on none."""
        with self._guarded():
            self._guests.move(uuid, source, target)

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Hold the lock, and make errors of the file system those of a hypervisor."""
        try:
            with self._lock:
                yield
        except (OSError, ValueError, TypeError) as error:
            hint = "look at the folder of [roost_fake] state_directory"
            raise HypervisorError(f"fake hypervisor: {error}", hint) from error
