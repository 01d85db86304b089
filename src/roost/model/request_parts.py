# SPDX-License-Identifier: Apache-2.0
"""Records that are parts of a request: destination, tried hosts, limits, additional resources, networks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any

from roost.model.item_access import AttributesAsItems
from roost.model.message_fields import FromMessage
from roost.validation.containers import ListOf, MappingOf
from roost.validation.kinds import Boolean, Kind, Number, OrNull
from roost.validation.records import Checked, Part
from roost.validation.vocabulary import (
    AMOUNT,
    TEXT,
    Amount,
    Flag,
    NameLists,
    NameSet,
    NameTuple,
    OptionalAmount,
    OptionalText,
)

_RATIO = Number(least=0)
_AMOUNTS = MappingOf(AMOUNT)


class TriedHost(Kind[tuple[str, str]]):
    """The kind of a [host, node] pair; the node may be null or empty."""

    mismatch = "is no [host, node] pair"

    def strict(self, value: Any, field: str) -> tuple[str, str]:
        """(host, node); an empty text if there is no node."""
        if not isinstance(value, (list, tuple)) or len(value) != 2:
            raise self.refusal(value, field)
        node = "" if value[1] in (None, "") else TEXT.strict(value[1], f"{field}[1]")
        return TEXT.strict(value[0], f"{field}[0]"), node


_TRIED_HOSTS = ListOf(TriedHost(), mismatch="is not a list of [host, node] pairs")


@dataclass(frozen=True)
class Destination(Checked, FromMessage, AttributesAsItems):
    """The host, nova cell or aggregates that the caller asks for; filters still apply."""

    host: OptionalText = None
    node: OptionalText = None
    cell: OptionalText = None
    """Name of the nova cell, or its uuid if it has no name."""
    allow_cross_cell_move: Flag = False
    aggregates: NameTuple = ()
    """Each entry: uuids of aggregates, joined by commas. The host is in at least one aggregate of each entry."""
    forbidden_aggregates: NameSet = frozenset()
    """Uuids of aggregates: the host is in none of them."""
    cell_uuid: OptionalText = None

    @property
    def bound_to_cell(self) -> tuple[str | None, ...]:
        """The name and uuid of the nova cell that the request must not leave; empty if it may go to any."""
        return (self.cell, self.cell_uuid) if self.cell and not self.allow_cross_cell_move else ()

    @property
    def aggregate_choices(self) -> tuple[frozenset[str], ...]:
        """Sets of aggregate uuids: the host is in at least one aggregate of each set."""
        return tuple(frozenset(entry.split(",")) for entry in self.aggregates)


@dataclass(frozen=True)
class Retry(Checked, FromMessage, AttributesAsItems):
    """Hosts on which building the instance failed, and the number of attempts."""

    num_attempts: Amount = 1
    hosts: Annotated[tuple[tuple[str, str], ...], _TRIED_HOSTS] = ()
    """(host, node) pairs; the node is empty if it is unknown."""


@dataclass(frozen=True)
class NetworkMetadata(Checked, FromMessage, AttributesAsItems):
    """Networks of the instance: their network cards should be close to its NUMA cells."""

    physnets: NameSet = frozenset()
    tunneled: Flag = False


@dataclass(frozen=True)
class NumaLimits(Checked, FromMessage, AttributesAsItems):
    """Overcommit ratios of the NUMA cells of a host."""

    cpu_allocation_ratio: Annotated[float, _RATIO]
    ram_allocation_ratio: Annotated[float, _RATIO]


@dataclass(frozen=True)
class Limits(Checked, FromMessage, AttributesAsItems):
    """Overcommit ceilings of the last chosen host, for the claim on that host. None: no ceiling."""

    vcpu: OptionalAmount = None
    memory_mb: OptionalAmount = None
    disk_gb: OptionalAmount = None
    numa_topology: Annotated[NumaLimits | None, OrNull(Part(NumaLimits, takes_mappings=True))] = None

    def to_dict(self) -> dict[str, Any]:
        """The ceilings that are set."""
        return {each.name: value for each in fields(self) if (value := getattr(self, each.name)) is not None}


@dataclass(frozen=True)
class RequestGroup(Checked, FromMessage, AttributesAsItems):
    """Additional resources, for example of a port or an accelerator; they are taken from the host."""

    resources: Annotated[Mapping[str, int], _AMOUNTS] = field(default_factory=dict)
    """Resource class -> amount."""
    required_traits: NameSet = frozenset()
    forbidden_traits: NameSet = frozenset()
    aggregates: NameLists = ()
    """Lists of aggregate uuids: the host is in at least one aggregate of each list."""
    forbidden_aggregates: NameSet = frozenset()
    use_same_provider: Annotated[bool, Boolean(unset=True)] = True
    requester_id: OptionalText = None
    """Id of the requester, for example the uuid of a port."""
    provider_uuids: NameTuple = ()
    """Uuids of the resource providers that were chosen for it; empty until then."""
    in_tree: OptionalText = None

    def __hash__(self) -> int:
        return hash((frozenset(self.resources.items()), self.required_traits, self.forbidden_traits))


@dataclass(frozen=True)
class RequestLevelParams(Checked, FromMessage, AttributesAsItems):
    """Trait conditions on the host's root resource provider, and subtrees of its providers."""

    root_required: NameSet = frozenset()
    """Traits that the host must have."""
    root_forbidden: NameSet = frozenset()
    """Traits that the host must not have."""
    same_subtree: NameLists = ()


@dataclass(frozen=True)
class SecurityGroup(Checked, FromMessage, AttributesAsItems):
    """A security group, by name or by uuid."""

    name: OptionalText = None
    uuid: OptionalText = None


@dataclass(frozen=True)
class NetworkRequest(Checked, FromMessage, AttributesAsItems):
    """A network or a port that the instance is connected to."""

    network_id: OptionalText = None
    address: OptionalText = None
    port_id: OptionalText = None
    pci_request_id: OptionalText = None
    tag: OptionalText = None
    arq_uuid: OptionalText = None
    device_profile: OptionalText = None
