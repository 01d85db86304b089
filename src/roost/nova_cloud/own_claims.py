# SPDX-License-Identifier: Apache-2.0
"""What this scheduler claimed and nova's compute nodes may not show yet.

A compute node's row counts an instance about half a second after its claim, when nova-compute has begun to build it.
Requests that come meanwhile would all see the same best host. So the claims of this scheduler are added to a row
until it was written after them.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

from roost.hosts import HostRecord, Instance
from roost.hosts.guests import GuestSpace
from roost.ledger.claim import Claim

SETTLING = timedelta(seconds=1.5)
"""How long a claim is added in any case: the row may have been written for another instance in the same second."""
LONGEST = timedelta(seconds=60)
"""How long a claim is added at most: the build may have failed before nova-compute counted it."""


class OwnClaim(NamedTuple):
    """A claim of this scheduler that is about to be made, or was granted."""

    claim: Claim
    claimed_at: datetime


class OwnClaims:
    """Claims of this scheduler by node. May be shared by threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_node: dict[str, list[OwnClaim]] = defaultdict(list)

    def add(self, claims: Iterable[Claim], now: datetime) -> None:
        """Add claims that are made now."""
        with self._lock:
            for claim in claims:
                self._by_node[claim.node_uuid].append(OwnClaim(claim, now))

    def remove(self, claims: Iterable[Claim]) -> None:
        """Remove claims that were not granted."""
        with self._lock:
            for claim in claims:
                left = [each for each in self._by_node[claim.node_uuid] if each.claim is not claim]
                self._by_node[claim.node_uuid] = left

    def settle(self, written_at: Callable[[str], datetime | None], now: datetime) -> set[str]:
        """Drop claims that rows count by now: the nodes, by uuid, of which some were dropped.

        `written_at`: when the row of a node, by uuid, was written last; whole seconds on MariaDB.
        """
        settled = set()
        with self._lock:
            for uuid in list(self._by_node):
                before = self._by_node[uuid]
                left = [each for each in before if not _is_counted(each, written_at(uuid), now)]
                if len(left) < len(before):
                    settled.add(uuid)
                if left:
                    self._by_node[uuid] = left
                else:
                    del self._by_node[uuid]
        return settled

    def added_to(self, record: HostRecord) -> HostRecord:
        """The record with the claims on its node added, as `HostTable.consume` would."""
        with self._lock:
            claims = [each.claim for each in self._by_node.get(record.uuid, ())]
        listed = {each.uuid for each in record.instances}
        for claim in claims:
            record = _with_claim(record, claim, claim.consumer_uuid in listed)
        return record


def _is_counted(own: OwnClaim, written_at: datetime | None, now: datetime) -> bool:
    age = now - own.claimed_at
    if age < SETTLING:
        return False
    is_written = written_at is not None and written_at >= own.claimed_at.replace(microsecond=0)
    return is_written or age > LONGEST


def _with_claim(record: HostRecord, claim: Claim, is_listed: bool) -> HostRecord:
    use, space = claim.use, GuestSpace(record.numa, record.pci_pools)
    if claim.guest is not None:
        space = space.with_guest(claim.guest)
    instances = record.instances if is_listed else (*record.instances, _instance(claim))
    return replace(
        record,
        free_ram_mb=(record.free_ram_mb or 0) - use.memory_mb,
        free_disk_mb=(record.free_disk_mb or 0) - 1024 * use.disk_gb,
        disk_mb_used=(record.disk_mb_used or 0) + 1024 * use.disk_gb,
        vcpus_used=(record.vcpus_used or 0) + use.vcpus,
        num_instances=(record.num_instances or 0) + 1,
        num_io_ops=(record.num_io_ops or 0) + 1,
        numa=space.numa,
        pci_pools=space.pools,
        instances=instances,
    )


def _instance(claim: Claim) -> Instance:
    details = claim.details
    return Instance(
        claim.consumer_uuid,
        claim.project_id,
        details.get("flavor_id"),
        details.get("image_props") or {},
        claim.amounts,
    )
