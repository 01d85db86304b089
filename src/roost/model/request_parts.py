# SPDX-License-Identifier: Apache-2.0
"""Records that hang on a request: where to go, where it was tried, what it needs besides its flavor."""

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
    """A [host, node] pair; the node may be null or empty."""

    mismatch = "is no [host, node] pair"

    def strict(self, value: Any, field: str) -> tuple[str, str]:
        """Host and node; an empty node for none."""
        if not isinstance(value, (list, tuple)) or len(value) != 2:
            raise self.refusal(value, field)
        node = "" if value[1] in (None, "") else TEXT.strict(value[1], f"{field}[1]")
        return TEXT.strict(value[0], f"{field}[0]"), node


_TRIED_HOSTS = ListOf(TriedHost(), mismatch="is not a list of [host, node] pairs")


@dataclass(frozen=True)
class Destination(Checked, FromMessage, AttributesAsItems):
    """Where the caller wants it: filters still have their say."""

    host: OptionalText = None
    node: OptionalText = None
    cell: OptionalText = None
    """The cell's name, or its uuid where it has no name."""
    allow_cross_cell_move: Flag = False
    aggregates: NameTuple = ()
    """Uuids of aggregates, joined by commas: the host is in one of each entry."""
    forbidden_aggregates: NameSet = frozenset()
    """Uuids of aggregates: the host is in none of them."""
    cell_uuid: OptionalText = None

    @property
    def bound_to_cell(self) -> tuple[str | None, ...]:
        """The names of the cell that the request must not leave; none where it may go anywhere."""
        return (self.cell, self.cell_uuid) if self.cell and not self.allow_cross_cell_move else ()

    @property
    def aggregate_choices(self) -> tuple[frozenset[str], ...]:
        """Sets of uuids of aggregates: the host is in one of each set."""
        return tuple(frozenset(entry.split(",")) for entry in self.aggregates)


@dataclass(frozen=True)
class Retry(Checked, FromMessage, AttributesAsItems):
    """Hosts that were tried for this instance and failed."""

    num_attempts: Amount = 1
    hosts: Annotated[tuple[tuple[str, str], ...], _TRIED_HOSTS] = ()
    """(host, node) pairs; an empty node where the driver of that time knew of none."""


@dataclass(frozen=True)
class NetworkMetadata(Checked, FromMessage, AttributesAsItems):
    """Networks that the instance will be on: their cards should be near its NUMA cells."""

    physnets: NameSet = frozenset()
    tunneled: Flag = False


@dataclass(frozen=True)
class NumaLimits(Checked, FromMessage, AttributesAsItems):
    """How far the cells of a host may be overcommitted."""

    cpu_allocation_ratio: Annotated[float, _RATIO]
    ram_allocation_ratio: Annotated[float, _RATIO]


@dataclass(frozen=True)
class Limits(Checked, FromMessage, AttributesAsItems):
    """Overcommit ceilings of the host that was chosen last, for its own claim. None: no ceiling is set."""

    vcpu: OptionalAmount = None
    memory_mb: OptionalAmount = None
    disk_gb: OptionalAmount = None
    numa_topology: Annotated[NumaLimits | None, OrNull(Part(NumaLimits, takes_mappings=True))] = None

    def to_dict(self) -> dict[str, Any]:
        """Those that are set."""
        return {each.name: value for each in fields(self) if (value := getattr(self, each.name)) is not None}


@dataclass(frozen=True)
class RequestGroup(Checked, FromMessage, AttributesAsItems):
    """Resources that a port or an accelerator needs besides the flavor: here of the host itself."""

    resources: Annotated[Mapping[str, int], _AMOUNTS] = field(default_factory=dict)
    """Amount per resource class."""
    required_traits: NameSet = frozenset()
    forbidden_traits: NameSet = frozenset()
    aggregates: NameLists = ()
    """Lists of uuids of aggregates: the host is in one of each list."""
    forbidden_aggregates: NameSet = frozenset()
    use_same_provider: Annotated[bool, Boolean(unset=True)] = True
    requester_id: OptionalText = None
    """What needs it: the uuid of a port, for example."""
    provider_uuids: NameTuple = ()
    """The resource providers that gave it, once they are known."""
    in_tree: OptionalText = None

    def __hash__(self) -> int:
        return hash((frozenset(self.resources.items()), self.required_traits, self.forbidden_traits))


@dataclass(frozen=True)
class RequestLevelParams(Checked, FromMessage, AttributesAsItems):
    """Conditions on the host as a whole."""

    root_required: NameSet = frozenset()
    """Traits that the host must have."""
    root_forbidden: NameSet = frozenset()
    """Traits that it must not have."""
    same_subtree: NameLists = ()


@dataclass(frozen=True)
class SecurityGroup(Checked, FromMessage, AttributesAsItems):
    """A security group, by name or by uuid."""

    name: OptionalText = None
    uuid: OptionalText = None


@dataclass(frozen=True)
class NetworkRequest(Checked, FromMessage, AttributesAsItems):
    """A network or a port that the instance is to have."""

    network_id: OptionalText = None
    address: OptionalText = None
    port_id: OptionalText = None
    pci_request_id: OptionalText = None
    tag: OptionalText = None
    arq_uuid: OptionalText = None
    device_profile: OptionalText = None
