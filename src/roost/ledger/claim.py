# SPDX-License-Identifier: Apache-2.0
"""A claim: amounts of resource classes of one node, for one instance; and an undo log for claims made in memory.

With the undo log an operation that fails is rolled back to its savepoint, while others of its transaction stay.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from roost.hosts.guests import Guest, GuestSpace
from roost.hosts.numa_cells import OvercommitLimits
from roost.model.kinds import IdentityCache
from roost.model.request import RequestSpec
from roost.model.resources import AllocationCandidate, Amounts, Use
from roost.model.uuids import canonical_uuid

ANTI_AFFINITY, AFFINITY = "anti-affinity", "affinity"
STRICT_POLICIES = (ANTI_AFFINITY, AFFINITY)
"""Group policies that the ledger enforces; soft policies only influence weights."""

NO_USE = Use()
_FLAVORS = IdentityCache[dict[str, Any]]()
"""Stored form of recently used flavors."""


class StrictGroup(NamedTuple):
    """A server group whose policy the ledger enforces."""

    uuid: str
    policy: str
    max_server_per_host: int = 1
    name: str = ""


@dataclass(frozen=True)
class Claim:
    """One instance on one node."""

    consumer_uuid: str
    node_uuid: str
    amounts: Amounts
    """Requested amount per resource class; a bare-metal node is claimed whole, whatever the amounts."""
    use: Use = NO_USE
    """Memory, disk and vCPUs by which nova's host attributes of the node change."""
    project_id: str | None = None
    user_id: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    """What filters read of instances on other hosts: flavor_id, flavor as it was when placed, image_props."""
    group: StrictGroup | None = None
    guest: Guest | None = None
    """Pinned CPUs, memory of NUMA cells and PCI devices; None if it needs resource classes only."""
    guest_limits: OvercommitLimits | None = None
    """How far the NUMA cells may be overcommitted by shared CPUs; None: no limit."""
    seen_space: GuestSpace | None = field(default=None, repr=False, compare=False)
    """What the node had left before, as the scheduler saw it; None if it is not known. The ledger checks it."""
    candidate: AllocationCandidate | None = field(default=None, repr=False, compare=False)
    """What is taken from which resource providers of placement; None: the amounts, from the node's own."""

    def __post_init__(self) -> None:
        """Bring the uuids of instance and group into their one spelling; the node's is that of its row."""
        if (uuid := canonical_uuid(self.consumer_uuid)) is not self.consumer_uuid:
            object.__setattr__(self, "consumer_uuid", uuid)
        if self.group is not None and (uuid := canonical_uuid(self.group.uuid)) is not self.group.uuid:
            object.__setattr__(self, "group", self.group._replace(uuid=uuid))


def claim_for(
    spec: RequestSpec,
    node_uuid: str,
    guest: Guest | None = None,
    guest_limits: OvercommitLimits | None = None,
    seen_space: GuestSpace | None = None,
) -> Claim:
    """The claim of a request, as it was consumed on a host, on that host's node."""
    flavor, group = spec.flavor, spec.instance_group
    details: dict[str, Any] = {"flavor": _FLAVORS.get(flavor) or _FLAVORS.put(flavor, flavor.to_details())}
    if flavor.id is not None:
        details["flavor_id"] = flavor.id
    if spec.image and spec.image.properties:
        properties = spec.image.properties
        details["image_props"] = {name: properties.text_of(name) for name in properties}
    return Claim(
        consumer_uuid=str(spec.instance_uuid),
        node_uuid=node_uuid,
        amounts=spec.amounts,
        use=Use(flavor.memory_mb, flavor.root_gb + flavor.ephemeral_gb, flavor.vcpus),
        project_id=spec.project_id,
        user_id=spec.user_id,
        details=details,
        group=StrictGroup(group.uuid, group.policy, group.max_server_per_host, group.name)
        if group is not None and group.uuid and group.policy in STRICT_POLICIES
        else None,
        guest=guest,
        guest_limits=guest_limits,
        seen_space=seen_space,
        candidate=spec.candidate,
    )


class HeldNode(NamedTuple):
    """What a consumer holds of a node."""

    host: str
    node: str
    """Its hypervisor_hostname."""
    amounts: dict[str, int]
    """Amount per resource class."""
    guest: Guest | None = None


class GroupPlaces(NamedTuple):
    """Members of a server group, and the hosts from which members move away."""

    members: list[str]
    """Uuids, sorted."""
    sources: list[tuple[str, str]]
    """Host and uuid of each migration that has a place in the group: the source of a member's move."""


class MemberHosts(NamedTuple):
    """Where the members of a server group are."""

    policy: str
    max_server_per_host: int
    host: str | None
    """Affinity: the host that the group is bound to."""
    consumers: Mapping[str, set[str]]
    """Host -> members that have allocations there, and migrations of members that move away from there."""

    def closed_to(self, consumers: Collection[str], all_hosts: Collection[str]) -> set[str]:
        """The hosts that these consumers, an instance and its migration, may not be on by the group's policy."""
        if self.policy == AFFINITY and self.host is not None:
            return set(all_hosts) - {self.host}
        if self.policy != ANTI_AFFINITY:
            return set()
        others = {host: there - set(consumers) for host, there in self.consumers.items()}
        return {host for host, there in others.items() if len(there) >= self.max_server_per_host}


class UndoLog:
    """Inverse actions of all changes made in memory so far, the newest last."""

    def __init__(self) -> None:
        self._actions: list[Callable[[], object]] = []

    def append(self, action: Callable[[], object]) -> None:
        """Add the inverse action of a change."""
        self._actions.append(action)

    def savepoint(self) -> int:
        """A position to which `rollback_to` can return."""
        return len(self._actions)

    def rollback_to(self, savepoint: int) -> None:
        """Undo all changes made after the savepoint, the newest first."""
        while len(self._actions) > savepoint:
            self._actions.pop()()
