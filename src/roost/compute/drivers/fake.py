# SPDX-License-Identifier: Apache-2.0
"""A hypervisor that does not exist: of any size, as slow as it is told, and failing as often as it is told."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from roost.clock import Clock
from roost.compute.drivers.base import FoundGuest, GuestSpec, HostDescription
from roost.compute.drivers.fake_guests import FakeGuest, FakeHypervisors
from roost.compute.options import FakeDriverOptions
from roost.errors import FieldError, HypervisorError, OptionError
from roost.hosts.numa_cells import HostCell, HostTopology, PagePool
from roost.hosts.pci import Pools, pools_from_json
from roost.records.server import RUNNING, SHUTDOWN

__all__ = ["FakeDriver", "FakeGuest", "FakeHypervisors"]

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
