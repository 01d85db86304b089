# SPDX-License-Identifier: Apache-2.0
"""Records that hang on a request: where to go, where it was tried, what it needs besides its flavor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from roost.errors import FieldError
from roost.model import checks
from roost.model.item_access import AttributesAsItems
from roost.model.message_fields import FromMessage

Part = TypeVar("Part")


def _set(record: Any, name: str, value: Any) -> None:
    object.__setattr__(record, name, value)


@dataclass(frozen=True)
class Destination(FromMessage, AttributesAsItems):
    """Where the caller wants it: filters still have their say."""

    host: str | None = None
    node: str | None = None
    cell: str | None = None
    """The cell's name, or its uuid where it has no name."""
    allow_cross_cell_move: bool = False
    aggregates: tuple[str, ...] = ()
    """Uuids of aggregates, joined by commas: the host is in one of each entry."""
    forbidden_aggregates: frozenset[str] = frozenset()
    """Uuids of aggregates: the host is in none of them."""
    cell_uuid: str | None = None

    def __post_init__(self) -> None:
        for name in ("host", "node", "cell", "cell_uuid"):
            checks.optional_text(getattr(self, name), name)
        checks.flag(self.allow_cross_cell_move, "allow_cross_cell_move")
        _set(self, "aggregates", checks.names(self.aggregates, "aggregates"))
        _set(self, "forbidden_aggregates", frozenset(checks.names(self.forbidden_aggregates, "forbidden_aggregates")))

    @property
    def bound_to_cell(self) -> tuple[str | None, ...]:
        """The names of the cell that the request must not leave; none where it may go anywhere."""
        return (self.cell, self.cell_uuid) if self.cell and not self.allow_cross_cell_move else ()

    @property
    def aggregate_choices(self) -> tuple[frozenset[str], ...]:
        """The same as sets of uuids: the host is in one of each set."""
        return tuple(frozenset(entry.split(",")) for entry in self.aggregates)


@dataclass(frozen=True)
class Retry(FromMessage, AttributesAsItems):
    """Hosts that were tried for this instance and failed."""

    num_attempts: int = 1
    hosts: tuple[tuple[str, str], ...] = ()
    """(host, node) pairs; an empty node where the driver of that time knew of none."""

    def __post_init__(self) -> None:
        _set(self, "num_attempts", checks.whole_number(self.num_attempts, "num_attempts"))
        if not isinstance(self.hosts, (list, tuple)):
            raise FieldError("hosts", f"{checks.shown(self.hosts)} is not a list of [host, node] pairs")
        pairs = []
        for at, pair in enumerate(self.hosts):
            if not isinstance(pair, (list, tuple)) or len(pair) != 2:
                raise FieldError(f"hosts[{at}]", f"{checks.shown(pair)} is no [host, node] pair")
            node = "" if pair[1] in (None, "") else checks.text(pair[1], f"hosts[{at}][1]")
            pairs.append((checks.text(pair[0], f"hosts[{at}][0]"), node))
        _set(self, "hosts", tuple(pairs))


@dataclass(frozen=True)
class NetworkMetadata(FromMessage, AttributesAsItems):
    """Networks that the instance will be on: their cards should be near its NUMA cells."""

    physnets: frozenset[str] = frozenset()
    tunneled: bool = False

    def __post_init__(self) -> None:
        _set(self, "physnets", frozenset(checks.names(self.physnets, "physnets")))
        checks.flag(self.tunneled, "tunneled")


@dataclass(frozen=True)
class NumaLimits(FromMessage, AttributesAsItems):
    """How far the cells of a host may be overcommitted."""

    cpu_allocation_ratio: float
    ram_allocation_ratio: float

    def __post_init__(self) -> None:
        for name in ("cpu_allocation_ratio", "ram_allocation_ratio"):
            _set(self, name, checks.number(getattr(self, name), name, least=0))


@dataclass(frozen=True)
class Limits(FromMessage, AttributesAsItems):
    """Overcommit ceilings of the host that was chosen last, for its own claim. None: no ceiling is set."""

    vcpu: int | None = None
    memory_mb: int | None = None
    disk_gb: int | None = None
    numa_topology: NumaLimits | None = None

    def __post_init__(self) -> None:
        for name in ("vcpu", "memory_mb", "disk_gb"):
            if getattr(self, name) is not None:
                _set(self, name, checks.whole_number(getattr(self, name), name))
        if self.numa_topology is not None:
            _set(self, "numa_topology", part_of(NumaLimits, self.numa_topology, "numa_topology"))

    def to_dict(self) -> dict[str, Any]:
        """Those that are set."""
        return {each.name: value for each in fields(self) if (value := getattr(self, each.name)) is not None}


@dataclass(frozen=True)
class RequestGroup(FromMessage, AttributesAsItems):
    """Resources that a port or an accelerator needs besides the flavor: here of the host itself."""

    resources: Mapping[str, int] = field(default_factory=dict)
    """Amount per resource class."""
    required_traits: frozenset[str] = frozenset()
    forbidden_traits: frozenset[str] = frozenset()
    aggregates: tuple[tuple[str, ...], ...] = ()
    """Lists of uuids of aggregates: the host is in one of each list."""
    forbidden_aggregates: frozenset[str] = frozenset()
    use_same_provider: bool = True
    requester_id: str | None = None
    """Who needs it: the uuid of a port, for example."""
    provider_uuids: tuple[str, ...] = ()
    """Who gave it, once that is known."""
    in_tree: str | None = None

    def __post_init__(self) -> None:
        amounts = checks.mapping(self.resources, "resources").items()
        counted = {name: checks.whole_number(amount, f"resources.{name}") for name, amount in amounts}
        _set(self, "resources", checks.mapping(counted, "resources"))
        for name in ("required_traits", "forbidden_traits", "forbidden_aggregates"):
            _set(self, name, frozenset(checks.names(getattr(self, name), name)))
        _set(self, "aggregates", _lists_of_names(self.aggregates, "aggregates"))
        _set(self, "provider_uuids", checks.names(self.provider_uuids, "provider_uuids"))
        checks.flag(self.use_same_provider, "use_same_provider")
        for name in ("requester_id", "in_tree"):
            checks.optional_text(getattr(self, name), name)

    def __hash__(self) -> int:
        return hash((frozenset(self.resources.items()), self.required_traits, self.forbidden_traits))


@dataclass(frozen=True)
class RequestLevelParams(FromMessage, AttributesAsItems):
    """Conditions on the host as a whole."""

    root_required: frozenset[str] = frozenset()
    """Traits that the host must have."""
    root_forbidden: frozenset[str] = frozenset()
    """Traits that it must not have."""
    same_subtree: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        for name in ("root_required", "root_forbidden"):
            _set(self, name, frozenset(checks.names(getattr(self, name), name)))
        _set(self, "same_subtree", _lists_of_names(self.same_subtree, "same_subtree"))


@dataclass(frozen=True)
class SecurityGroup(FromMessage, AttributesAsItems):
    """A security group, by name or by uuid."""

    name: str | None = None
    uuid: str | None = None

    def __post_init__(self) -> None:
        for name in ("name", "uuid"):
            checks.optional_text(getattr(self, name), name)


@dataclass(frozen=True)
class NetworkRequest(FromMessage, AttributesAsItems):
    """A network or a port that the instance is to have."""

    network_id: str | None = None
    address: str | None = None
    port_id: str | None = None
    pci_request_id: str | None = None
    tag: str | None = None
    arq_uuid: str | None = None
    device_profile: str | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            checks.optional_text(getattr(self, each.name), each.name)


def part_of(kind: type[Part], value: Any, where: str) -> Part:
    """A record of this class: as it is, or from a mapping of its fields."""
    if isinstance(value, kind):
        return value
    if not isinstance(value, Mapping):
        raise FieldError(where, f"{checks.shown(value)} is not of the class {kind.__name__}")
    try:
        plain = checks.mapping(value, "")
        checks.known_keys(plain, [each.name for each in fields(kind)])  # type: ignore[arg-type]
        return kind(**plain)
    except FieldError as error:
        raise error.under(where) from None


def parts_of(kind: type[Part], value: Any, where: str) -> tuple[Part, ...]:
    """A list of such records."""
    if not isinstance(value, (list, tuple)):
        raise FieldError(where, f"{checks.shown(value)} is not a list")
    return tuple(part_of(kind, each, f"{where}[{at}]") for at, each in enumerate(value))


def _lists_of_names(value: Any, where: str) -> tuple[tuple[str, ...], ...]:
    if not isinstance(value, (list, tuple)):
        raise FieldError(where, f"{checks.shown(value)} is not a list of lists")
    return tuple(checks.names(each, f"{where}[{at}]") for at, each in enumerate(value))
