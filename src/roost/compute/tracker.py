# SPDX-License-Identifier: Apache-2.0
"""The usage that an agent tracks: which servers are on its host or moving to or from it, and what they use.

It is counted again at each start from the records of the servers and from the ledger, so it survives a restart. The
ledger is the authority on resources; the claim of an agent is a second look at the limits that it was sent.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from roost.compute.drivers.base import FoundGuest
from roost.compute.options import ComputeOptions
from roost.errors import ComputeResourcesUnavailable
from roost.hosts.guests import Guest, GuestSpace
from roost.hosts.numa_cells import OvercommitLimits
from roost.ledger.ledger import Ledger
from roost.messages.objects.flavor_image_group import flavor_from_object
from roost.model import Flavor
from roost.model.resources import Use, move_of
from roost.records.server import (
    BUILDING,
    DELETED,
    REBUILDING,
    RESIZE_MIGRATING,
    RESIZE_PREP,
    RESIZE_REVERTING,
    RESIZED,
    UNSHELVING,
    Server,
)
from roost.records.servers import ServerStore

_IO_TASKS = frozenset(
    {RESIZE_MIGRATING, REBUILDING, RESIZE_PREP, UNSHELVING, "image_snapshot", "image_backup", "rescuing"}
)
"""Tasks that count as I/O-heavy; so does every build."""
_NO_USE = Use()
_NO_SPACE = GuestSpace()


class ConsumerUse(NamedTuple):
    """What a consumer of the ledger, a server or its move, uses of the host."""

    use: Use
    guest: Guest | None = None
    """Pinned CPUs, NUMA cells and PCI devices."""


@dataclass(frozen=True)
class TrackedServer:
    """A server on the host, or moving to or from it."""

    uuid: str
    holdings: Mapping[str, ConsumerUse]
    """Consumer uuid -> what it uses here: of the server itself, of its move, or of both in a resize on one host."""
    vm_state: str | None = None
    task_state: str | None = None
    project_id: str | None = None
    os_type: str | None = None


class ResourceTracker:
    """Counts what servers use of one host. Thread-safe: a claim is checked and reserved under one lock."""

    def __init__(self, host: str, store: ServerStore, ledger: Ledger, options: ComputeOptions) -> None:
        self.host, self._store, self._ledger, self.options = host, store, ledger, options
        self._lock = threading.RLock()
        self._servers: dict[str, TrackedServer] = {}
        self._space = _NO_SPACE
        self._foreign_guests: tuple[FoundGuest, ...] = ()
        self._failed_builds = 0
        self._rebuilding = threading.Lock()
        self._touched: set[str] | None = None
        """Servers that were noted, claimed or left since the rebuild began that runs now; None while none does."""

    # --- servers -----------------------------------------------------------------------------------------

    def rebuild(self) -> None:
        """Count the usage again from the records of the servers and from the ledger.

        Servers that change while these are read stay as they are tracked.
        """
        with self._rebuilding:
            touched: set[str] = set()
            with self._lock:
                self._touched = touched
            try:
                found = {server.uuid: server for server in self._store.list_on(self.host)}
                guests = self._read_guests(found)
                with self._lock:
                    self._servers = {uuid: each for uuid, each in self._servers.items() if uuid in touched}
                    for uuid in found.keys() - touched:
                        self._put(found[uuid], guests)
            finally:
                with self._lock:
                    self._touched = None

    def note(self, server: Server) -> None:
        """Record the present state of a server, after a step; one that has nothing here any more is forgotten.

        Before a claim for a resize on its own host this moves the old size to the server's move, beside the new one.
        """
        guests = self._read_guests([server.uuid]) if _asks_for_guest(server) else {}
        with self._lock:
            self._touch(server.uuid)
            self._put(server, guests)

    def forget(self, server_uuid: str) -> None:
        """Remove a server that has left the host; no error if it is not here."""
        with self._lock:
            self._touch(server_uuid)
            self._servers.pop(server_uuid, None)

    def _touch(self, server_uuid: str) -> None:
        """Keep a rebuild that runs now from overwriting a server with what it read before. With the lock held."""
        if self._touched is not None:
            self._touched.add(server_uuid)

    def tracked(self) -> dict[str, TrackedServer]:
        """Uuid -> server, of those that are on the host or moving to or from it."""
        with self._lock:
            return dict(self._servers)

    def _put(self, server: Server, guests: Mapping[str, Guest]) -> None:
        uses = uses_on(server, self.host)
        if not uses:
            self._servers.pop(server.uuid, None)
            return
        holdings = {consumer: ConsumerUse(use, guests.get(consumer)) for consumer, use in uses.items()}
        image = server.spec.image if server.request_spec is not None else None
        os_type = image.properties.os_type if image else None
        state = server.vm_state, server.task_state
        self._servers[server.uuid] = TrackedServer(server.uuid, holdings, *state, server.project_id, os_type)

    def _read_guests(self, server_uuids: Iterable[str]) -> dict[str, Guest]:
        """Consumer uuid -> what the ledger has booked for it here, of these servers and their moves."""
        consumers = [each for uuid in server_uuids for each in (uuid, move_of(uuid))]
        held = self._ledger.read_holdings(consumers) if consumers else {}
        return {
            consumer: place.guest
            for consumer, places in held.items()
            for place in places.values()
            if place.host == self.host and place.guest is not None
        }

    # --- claims ------------------------------------------------------------------------------------------

    def claim(
        self, server_uuid: str, flavor: Flavor, limits: Mapping[str, Any] | None = None, guest: Guest | None = None
    ) -> None:
        """Reserve what a server needs, or ComputeResourcesUnavailable with all reasons; repeating it is no error.

        `limits`: ceilings of the scheduler by nova's names; one that is missing is no limit. `guest`: CPUs and
        devices that the ledger has booked for it here. What the server's move holds here stays beside it.
        """
        wanted = ConsumerUse(use_of_flavor(flavor), guest)
        with self._lock:
            self._touch(server_uuid)
            known = self._servers.get(server_uuid, TrackedServer(server_uuid, {}, vm_state=BUILDING))
            others = [each for consumer, each in self._holdings() if consumer != server_uuid]
            reasons = [*self._use_reasons(wanted.use, limits or {}, others)]
            reasons += self._guest_reasons(guest, limits or {}, others)
            if reasons:
                raise ComputeResourcesUnavailable("; ".join(reasons))
            self._servers[server_uuid] = replace(known, holdings={**known.holdings, server_uuid: wanted})

    def abort(self, server_uuid: str) -> None:
        """Give back what `claim` reserved; what the server's move holds here stays."""
        with self._lock:
            self._touch(server_uuid)
            known = self._servers.pop(server_uuid, None)
            left = {uuid: each for uuid, each in known.holdings.items() if uuid != server_uuid} if known else {}
            if known and left:
                self._servers[server_uuid] = replace(known, holdings=left)

    def _holdings(self) -> Iterator[tuple[str, ConsumerUse]]:
        for server in self._servers.values():
            yield from server.holdings.items()

    def _use_reasons(self, wanted: Use, limits: Mapping[str, Any], others: Iterable[ConsumerUse]) -> Iterator[str]:
        used = self._sum(each.use for each in others)
        for kind, limit, unit, at in (
            ("memory", "memory_mb", "MB", 0),
            ("disk", "disk_gb", "GB", 1),
            ("vcpu", "vcpu", "VCPU", 2),
        ):
            ceiling = limits.get(limit)
            if ceiling is not None and wanted[at] > ceiling - used[at]:
                yield f"Free {kind} {ceiling - used[at]:.2f} {unit} < requested {wanted[at]} {unit}"

    def _guest_reasons(
        self, guest: Guest | None, limits: Mapping[str, Any], others: Iterable[ConsumerUse]
    ) -> Iterator[str]:
        if guest is None or self._space == _NO_SPACE:
            return
        left = self._space.with_guests(each.guest for each in others if each.guest)
        ratios = limits.get("numa_topology")
        overcommit = OvercommitLimits(ratios.cpu_allocation_ratio, ratios.ram_allocation_ratio) if ratios else None
        if problem := left.shortage(replace(guest, devices=()), overcommit):
            yield f"Requested instance NUMA topology cannot fit the given host NUMA topology: {problem}"
        if problem := left.shortage(replace(guest, cells=()), None):
            yield f"Claim pci failed: {problem}"

    # --- the host ----------------------------------------------------------------------------------------

    def note_space(self, space: GuestSpace) -> None:
        """Record the NUMA cells and PCI devices that the host has, without any use of them."""
        with self._lock:
            self._space = space

    def note_foreign_guests(self, found: Iterable[FoundGuest]) -> None:
        """Record guests of the hypervisor that are not Roost's: what they use is kept for them."""
        with self._lock:
            self._foreign_guests = tuple(each for each in found if not each.is_own)

    @property
    def reserved(self) -> Use:
        """What servers cannot have: kept for the host itself, and used by foreign guests."""
        options = self.options
        with self._lock:
            memory_mb = sum(each.memory_mb for each in self._foreign_guests)
            vcpus = sum(each.vcpus for each in self._foreign_guests)
        disk_gb = -(-options.reserved_host_disk_mb // 1024)
        return Use(options.reserved_host_memory_mb + memory_mb, disk_gb, options.reserved_host_cpus + vcpus)

    @property
    def used(self) -> Use:
        """Use as nova counts it: what is reserved, and what servers and moves use."""
        with self._lock:
            return self._sum(each.use for _, each in self._holdings())

    def _sum(self, uses: Iterable[Use]) -> Use:
        total = self.reserved
        for use in uses:
            total = total.plus(use)
        return total

    # --- statistics --------------------------------------------------------------------------------------

    def build_failed(self) -> None:
        """Count a build that failed here, for BuildFailureWeigher, unless the options say that it is not counted."""
        with self._lock:
            self._failed_builds += self.options.counts_failed_builds

    def build_succeeded(self) -> None:
        """Begin the count of failed builds anew."""
        with self._lock:
            self._failed_builds = 0

    @property
    def failed_builds(self) -> int:
        """Builds that failed here since the last one that succeeded."""
        return self._failed_builds

    def stats(self) -> dict[str, int]:
        """The statistics of a host by nova's names: servers by state, task, operating system and project."""
        with self._lock:
            servers, failed_builds = list(self._servers.values()), self._failed_builds
        counts: Counter[str] = Counter()
        for each in servers:
            counts[f"num_vm_{each.vm_state}"] += 1
            counts[f"num_task_{each.task_state}"] += 1
            counts[f"num_os_type_{each.os_type}"] += 1
            counts[f"num_proj_{each.project_id}"] += 1
        io_workload = sum(each.vm_state == BUILDING or each.task_state in _IO_TASKS for each in servers)
        return {
            "num_instances": len(servers),
            **dict(sorted(counts.items())),
            "io_workload": io_workload,
            "failed_builds": failed_builds,
        }


def use_of_flavor(flavor: Flavor) -> Use:
    """What a server of this size uses, as the ledger's claims count it: disk is root and ephemeral."""
    return Use(flavor.memory_mb, flavor.root_gb + flavor.ephemeral_gb, flavor.vcpus)


def uses_on(server: Server, host: str) -> dict[str, Use]:
    """Consumer uuid -> what a server, or its move, uses of a host; empty if it has nothing there.

    A move counts on both sides until it is confirmed or reverted: in the ledger the target is the server's, the
    source that of its move.
    """
    if server.vm_state == DELETED:
        return {}
    task = server.task
    source = task.source[0] if task.source else None
    has_left_target = server.task_state == RESIZE_REVERTING and task.target is None
    is_resized = server.vm_state == RESIZED and not has_left_target
    found = {}
    if host == task.target_host or (host == server.host and (host != source or is_resized)):
        found[server.uuid] = _use_of(server, None if is_resized else task.flavor)
    if host == source:
        has_both = is_resized or task.target is not None
        found[move_of(server.uuid) if has_both else server.uuid] = _use_of(server, task.old_flavor)
    return found


def _asks_for_guest(server: Server) -> bool:
    """Whether the server, or what it is resized to, may have CPUs or devices of its own in the ledger."""
    if server.request_spec is None:
        return False
    spec = server.spec
    return bool(spec.numa_topology or spec.pci_requests or server.task.flavor or server.task.old_flavor)


def _use_of(server: Server, flavor: Mapping[str, Any] | None) -> Use:
    """The use of a Flavor object of nova's, or else of the server's own size."""
    if flavor is not None:
        return use_of_flavor(flavor_from_object(flavor))
    return _NO_USE if server.request_spec is None else use_of_flavor(server.spec.flavor)
