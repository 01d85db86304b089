# SPDX-License-Identifier: Apache-2.0
"""A hypervisor that does not exist: of any size, as slow as it is told, and failing as often as it is told.

Its guests are in memory, or files that outlive the process and that other processes see.
"""

from __future__ import annotations

import json
import os
import random
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, unquote

from roost.clock import Clock
from roost.compute.drivers.base import FoundGuest, GuestSpec, HostDescription
from roost.compute.options import FakeDriverOptions
from roost.errors import FieldError, HypervisorError, OptionError
from roost.hosts.numa_cells import HostCell, HostTopology, PagePool
from roost.hosts.pci import Pools, pools_from_json
from roost.records.server import RUNNING, SHUTDOWN

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


_SUPPORTED = tuple(("x86_64", hypervisor, "hvm") for hypervisor in ("fake", "kvm", "qemu"))
_TRAITS = frozenset({"COMPUTE_IMAGE_TYPE_QCOW2", "COMPUTE_IMAGE_TYPE_RAW", "COMPUTE_NODE", "HW_CPU_X86_SSE2"})
_VERSION = 1_000_000
_PAGES_PER_MIB = 256


class FakeDriver:
    """One fake host. Its delays pass on the given clock, its failures are drawn from the given randomness."""

    def __init__(
        self,
        host: str,
        hypervisors: FakeHypervisors,
        options: FakeDriverOptions,
        clock: Clock,
        randomness: random.Random,
    ) -> None:
        """OptionError for PCI devices that cannot be understood."""
        self.host, self._hypervisors, self.options = host, hypervisors, options
        self._clock, self._random = clock, randomness
        self._numa, self._pools = _make_cells(options), _make_pools(options)

    def open(self) -> None:
        """Nothing: there is no connection."""

    def close(self) -> None:
        """Nothing: guests go on running."""

    def describe(self) -> HostDescription:
        """What the host has."""
        options = self.options
        return HostDescription(
            hostname=self.host,
            hypervisor_type="fake",
            hypervisor_version=_VERSION,
            vcpus=options.vcpus,
            memory_mb=options.memory_mb,
            local_gb=options.local_gb,
            supported_instances=_SUPPORTED,
            cpu_info={"arch": "x86_64", "vendor": "fake", "model": "fake", "features": []},
            traits=_TRAITS,
            numa=self._numa,
            pci_pools=self._pools,
        )

    # --- guests ------------------------------------------------------------------------------------------

    def list_guests(self) -> Sequence[FoundGuest]:
        """All guests that are defined or running, foreign ones included."""
        return [
            FoundGuest(each.uuid, each.name, each.power_state, each.is_own, each.memory_mb, each.vcpus)
            for each in self._hypervisors.guests_on(self.host).values()
        ]

    def spawn(self, guest: GuestSpec, powered_on: bool = True) -> None:
        """Define the guest and start it, after a delay. One that is there already is started, or left alone."""
        known = self._find(guest.uuid)
        if known is None:
            self._pause(self.options.build_seconds)
            self._fail_at_rate(self.options.build_failure_rate, f"guest {guest.uuid} cannot be started")
            state = RUNNING if powered_on else SHUTDOWN
            self._put(FakeGuest(guest.uuid, guest.name, state, guest.vcpus, guest.memory_mb))
        elif powered_on:
            self._put(replace(known, power_state=RUNNING))

    def destroy(self, uuid: str) -> None:
        """Remove the guest, after a delay. One that is not there is no error; a foreign one is refused."""
        known = self._find(uuid)
        if known is None:
            return
        if not known.is_own:
            raise HypervisorError(f"host {self.host}: guest {uuid} is not Roost's", "remove it by hand")
        self._pause(self.options.delete_seconds)
        self._hypervisors.remove(self.host, uuid)

    def power_on(self, uuid: str) -> None:
        """Start a defined guest; one that runs is no error."""
        self._put(replace(self._get(uuid), power_state=RUNNING))

    def power_off(self, uuid: str) -> None:
        """Stop a guest; its definition stays. One that is stopped is no error."""
        self._put(replace(self._get(uuid), power_state=SHUTDOWN))

    # --- live migration ----------------------------------------------------------------------------------

    def migration_address(self) -> Mapping[str, Any]:
        """How another fake host reaches this one for a live migration."""
        return {"type": "fake", "host": self.host, "hypervisors": self._hypervisors.name}

    def check_migration_source(self, source: Mapping[str, Any]) -> None:
        """HypervisorError unless the source is another fake host with the same hypervisors."""
        self._check_peer(source)

    def live_migrate(self, guest: GuestSpec, target: Mapping[str, Any]) -> None:
        """Move a running guest to another fake host, after a delay; repeating it when it has moved is no error."""
        self._check_peer(target)
        if self._find(guest.uuid) is None and guest.uuid in self._hypervisors.guests_on(target["host"]):
            return
        if self._get(guest.uuid).power_state != RUNNING:
            raise HypervisorError(f"host {self.host}: guest {guest.uuid} does not run")
        self._pause(self.options.build_seconds)
        self._fail_at_rate(self.options.move_failure_rate, f"guest {guest.uuid} cannot be migrated")
        self._hypervisors.move(guest.uuid, self.host, target["host"])

    def _check_peer(self, address: Mapping[str, Any]) -> None:
        if (address.get("type"), address.get("hypervisors")) != ("fake", self._hypervisors.name):
            problem = f"host {self.host}: no live migration from or to {address.get('host')}"
            raise HypervisorError(problem, "both must be fake hosts with one [roost_fake] state_directory")

    # --- parts -------------------------------------------------------------------------------------------

    def _find(self, uuid: str) -> FakeGuest | None:
        return self._hypervisors.guests_on(self.host).get(uuid)

    def _get(self, uuid: str) -> FakeGuest:
        found = self._find(uuid)
        if found is None:
            raise HypervisorError(f"host {self.host}: there is no guest {uuid}")
        return found

    def _put(self, guest: FakeGuest) -> None:
        self._hypervisors.put(self.host, guest)

    def _pause(self, seconds: float) -> None:
        if seconds:
            self._clock.sleep(seconds)

    def _fail_at_rate(self, rate: float, problem: str) -> None:
        if rate and self._random.random() < rate:
            raise HypervisorError(f"host {self.host}: {problem}: a failure as [roost_fake] asks for")


def _make_cells(options: FakeDriverOptions) -> HostTopology | None:
    """NUMA cells that share CPUs and memory as evenly as possible; None without any."""
    count = options.numa_cells
    cells = []
    for at in range(count):
        cpus = frozenset(range(at * options.vcpus // count, (at + 1) * options.vcpus // count))
        memory_mb = (at + 1) * options.memory_mb // count - at * options.memory_mb // count
        pages = (PagePool(4, memory_mb * _PAGES_PER_MIB),)
        cells.append(HostCell(at, cpus, cpus, memory_mb, mempages=pages, socket=at))
    return HostTopology(tuple(cells)) if cells else None


def _make_pools(options: FakeDriverOptions) -> Pools:
    try:
        return pools_from_json([json.loads(line) for line in options.pci_devices])
    except FieldError as error:
        raise OptionError(f"[roost_fake] pci_devices: {error.message}", error.hint) from None
    except ValueError:
        raise OptionError(
            "[roost_fake] pci_devices: this is no JSON object", 'write {"vendor_id": "8086", ...}'
        ) from None
