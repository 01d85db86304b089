# SPDX-License-Identifier: Apache-2.0
"""The request for instances, `RequestSpec`, with all conditions on the hosts they may run on, and its parts.

Parts are scheduler hints (name -> tuple of texts), destination, tried hosts, limits, additional resources, networks.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from types import MappingProxyType
from typing import Annotated, Any, ClassVar

from roost.errors import FieldError
from roost.model.fields import (
    AMOUNT,
    AT_LEAST_ONE,
    MAPPING,
    NAMES,
    OPTIONAL_TEXT,
    TEXT,
    Amount,
    Checked,
    Flag,
    FreeMapping,
    ListOf,
    MappingOf,
    NameLists,
    NameSet,
    NameTuple,
    OptionalAmount,
    OptionalText,
    Part,
    listed,
)
from roost.model.flavor import AttributesAsItems, Flavor
from roost.model.group import ServerGroup
from roost.model.image import Image
from roost.model.kinds import Boolean, IdentityCache, Kind, Number, OfType, OrNull, lazy, shown
from roost.model.legacy import LegacyDicts, as_filter_properties, to_filter_properties, to_request_spec
from roost.model.message_fields import FromMessage
from roost.model.numa import InstanceTopology
from roost.model.pci import PciRequest
from roost.model.resources import (
    AllocationCandidate,
    AllocationCandidates,
    feature_traits,
    requested_amounts,
    requested_traits,
)
from roost.model.uuids import OptionalUuid, canonical_uuid

_INSTANCE_HINTS = ("same_host", "different_host")
"""Hints that hold uuids of instances."""


class _HintTexts(Kind[tuple[str, ...]]):
    """The texts of one hint; a single text is a list of one."""

    mismatch = "is no text and no list of texts"

    def strict(self, value: Any, field: str) -> tuple[str, ...]:
        """A text or a list of texts."""
        if isinstance(value, str):
            return (value,)
        if not isinstance(value, (list, tuple)):
            raise self.refusal(value, field)
        for each in value:
            if not isinstance(each, str):
                raise FieldError(field, f"{shown(each)} is not text", "put it in quotes")
        return tuple(value)

    def lenient(self, value: Any, field: str) -> tuple[str, ...]:
        """The texts of a scalar or of a list of scalars; null is refused."""
        is_list = isinstance(value, (list, tuple, set, frozenset))
        found = []
        for at, each in enumerate(listed(value if is_list else [value], field)):
            text = OPTIONAL_TEXT.lenient(each, f"{field}[{at}]")
            if text is None:
                raise FieldError(f"{field}[{at}]", "has no value", "leave it out")
            found.append(text)
        return tuple(found)


class _Hints(MappingOf):
    """All hints of a request. Lenient: a null hint is left out, and uuids of instances get their one spelling."""

    def lenient(self, value: Any, field: str) -> Mapping[str, tuple[str, ...]]:
        """The hints that have a value."""
        given = {name: each for name, each in MAPPING.lenient(value, field).items() if each is not None}
        return with_canonical_uuids(self._parsed(self.value.lenient, given, field))


def with_canonical_uuids(hints: Mapping[str, tuple[str, ...]]) -> Mapping[str, tuple[str, ...]]:
    """The hints, with uuids of instances in their one spelling: as all instances here are spelt."""
    spelt = {name: tuple(map(canonical_uuid, hints[name])) for name in _INSTANCE_HINTS if name in hints}
    return MAPPING.strict({**hints, **spelt}, "") if spelt else hints


HINTS = _Hints(_HintTexts())

_RATIO = Number(least=0)
_FLAVOR_AMOUNTS = MappingOf(AMOUNT)


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

    resources: Annotated[Mapping[str, int], _FLAVOR_AMOUNTS] = field(default_factory=dict)
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


_NO_TRAITS: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())
NO_PARAMS = RequestLevelParams()


def _records(cls: type) -> Kind[Any]:
    """The kind of a list of records, or of mappings of their fields; null is an empty list."""
    return OrNull(ListOf(Part(cls, takes_mappings=True)), unset=())


_OPTIONAL_NAMES = OrNull(NAMES)
_ANYTHING = OfType((object,), "", takes_flags=True)


@dataclass(frozen=True)
class RequestSpec(Checked, FromMessage, AttributesAsItems):
    """A request for `num_instances` instances of one flavor, and the conditions on their hosts.

    Fields are read as attributes (`spec.flavor.memory_mb`) or, as in the older filter_properties dict, as items
    (`spec.get('instance_type')['memory_mb']`, `spec['scheduler_hints']`).
    """

    flavor: Annotated[Flavor, Part(Flavor)]
    image: Annotated[Image | None, OrNull(Part(Image))] = None
    num_instances: Annotated[int, AT_LEAST_ONE] = 1
    instance_uuid: OptionalUuid = None
    project_id: OptionalText = None
    user_id: OptionalText = None
    availability_zone: OptionalText = None
    scheduler_hints: Annotated[Mapping[str, tuple[str, ...]], HINTS] = field(default_factory=dict)
    """Hint name -> texts; a single text may be given instead of a list of one."""
    instance_group: Annotated[ServerGroup | None, OrNull(Part(ServerGroup))] = None
    ignore_hosts: Annotated[tuple[str, ...] | None, _OPTIONAL_NAMES] = None
    force_hosts: Annotated[tuple[str, ...] | None, _OPTIONAL_NAMES] = None
    force_nodes: Annotated[tuple[str, ...] | None, _OPTIONAL_NAMES] = None
    requested_destination: Annotated[Destination | None, OrNull(Part(Destination))] = None
    retry: Annotated[Retry | None, OrNull(Part(Retry))] = None
    is_bfv: Flag = False
    """Booted from a volume: the root disk needs no disk of the host."""
    numa_topology: Annotated[InstanceTopology | None, OrNull(Part(InstanceTopology))] = None
    """The guest's NUMA topology; once placed, as fitted to the host's NUMA cells."""
    pci_requests: Annotated[tuple[PciRequest, ...], ListOf(Part(PciRequest))] = ()
    pci_devices: Annotated[tuple[Any, ...], ListOf(_ANYTHING)] = ()
    """Once placed: the pools of the PCI devices that were assigned to the instance."""
    is_fully_consumed: bool = True
    """Once placed: whether it counts in `num_io_ops` of its host. False once it is built, or if the host lacked
    PCI devices: the claim on the compute host will then fail."""
    requested_resources: Annotated[tuple[RequestGroup, ...], _records(RequestGroup)] = ()
    """Additional resources for ports and accelerators."""
    request_level_params: Annotated[RequestLevelParams, Part(RequestLevelParams)] = NO_PARAMS
    network_metadata: Annotated[NetworkMetadata | None, OrNull(Part(NetworkMetadata))] = None
    limits: Annotated[Limits | None, OrNull(Part(Limits))] = None
    """Overcommit ceilings of an earlier choice; not used for decisions."""
    security_groups: Annotated[tuple[SecurityGroup, ...], _records(SecurityGroup)] = ()
    requested_networks: Annotated[tuple[NetworkRequest, ...], _records(NetworkRequest)] = ()
    config_options: FreeMapping = field(default_factory=dict, compare=False, repr=False)
    """Content of the JSON options file of older nova releases, for plugins that read it."""
    caller: FreeMapping = field(default_factory=dict, compare=False, repr=False)
    """Who sent the request, for plugins: user_id, project_id, roles, is_admin and more of nova's request context."""
    older_form: LegacyDicts = field(default=LegacyDicts(), compare=False, repr=False)
    """The dicts of a request from an older nova release; empty for other requests."""
    candidates: AllocationCandidates | None = field(default=None, compare=False, repr=False)
    """What placement offers for it, which then decides about capacity and traits; None: the hosts' columns do."""
    candidate: AllocationCandidate | None = field(default=None, compare=False, repr=False)
    """Once placed: which of the candidates the instance takes."""

    unheld: ClassVar[Mapping[str, Any]] = MappingProxyType({"id": None})

    def __getitem__(self, key: str) -> Any:
        """The member of nova's older filter_properties dict, or else the attribute with this name."""
        if key in self._filter_properties:
            return self._filter_properties[key]
        return super().__getitem__(key)

    @lazy
    def _filter_properties(self) -> dict[str, Any]:
        return as_filter_properties(self)

    @property
    def vcpus(self) -> int:
        """Virtual CPUs of one instance."""
        return self.flavor.vcpus

    @property
    def memory_mb(self) -> int:
        """Memory of one instance, MiB."""
        return self.flavor.memory_mb

    @property
    def root_gb(self) -> int:
        """Root disk of one instance, GiB."""
        return self.flavor.root_gb

    @property
    def ephemeral_gb(self) -> int:
        """Ephemeral disk of one instance, GiB."""
        return self.flavor.ephemeral_gb

    @property
    def swap(self) -> int:
        """Swap disk of one instance, MiB."""
        return self.flavor.swap

    @lazy
    def amounts(self) -> Mapping[str, int]:
        """Resource class -> amount that one instance needs."""
        flavor, groups = self.flavor, self.requested_resources
        if self.is_bfv or groups:
            order = tuple(flavor.extra_specs), *(tuple(each.resources) for each in groups)
            return _amounts_of(flavor, self.is_bfv, groups, order)
        return _AMOUNTS.get(flavor) or _AMOUNTS.put(flavor, _amounts_of(flavor, False, (), tuple(flavor.extra_specs)))

    @lazy
    def traits(self) -> tuple[frozenset[str], frozenset[str]]:
        """(required, forbidden) traits of the host, from flavor, image, ports and the request itself."""
        params, groups = self.request_level_params, self.requested_resources
        if params is NO_PARAMS and not (groups or self.flavor.extra_specs or self.image):
            return _NO_TRAITS
        _, forbidden = requested_traits(self.flavor.extra_specs)
        required = self.marked_traits | feature_traits(self)
        if params is NO_PARAMS and not groups:
            return required, forbidden
        required = required.union(params.root_required, *(each.required_traits for each in groups))
        return required, forbidden.union(params.root_forbidden, *(each.forbidden_traits for each in groups))

    @lazy
    def additional_needs(self) -> Hashable:
        """Hashable form of the needs that do not come from flavor and image; None if there are none. A cache key."""
        params, groups = self.request_level_params, self.requested_resources
        if not groups and (params is NO_PARAMS or not (params.root_required or params.root_forbidden)):
            return None
        return groups, params.root_required, params.root_forbidden

    @lazy
    def marked_traits(self) -> frozenset[str]:
        """Traits that flavor and image mark as required."""
        required, _ = requested_traits(self.flavor.extra_specs)
        return required | self.image.traits_required if self.image else required

    @property
    def root_required(self) -> frozenset[str]:
        """Traits that the host as a whole must have."""
        return self.request_level_params.root_required

    @property
    def root_forbidden(self) -> frozenset[str]:
        """Traits that the host as a whole must not have."""
        return self.request_level_params.root_forbidden

    @property
    def same_subtree(self) -> tuple[tuple[str, ...], ...]:
        """Sets of request groups that one subtree of a host's resource providers must serve."""
        return self.request_level_params.same_subtree

    @property
    def is_rebuild(self) -> bool:
        """Whether it only checks that the instance may stay on its host with another image; consumes no resources."""
        return self.scheduler_hints.get("_nova_check_type") == ("rebuild",)

    @property
    def instance_uuid_as_sent(self) -> str | None:
        """The uuid of the instance as the request's message spells it: listeners know the instance by that."""
        spelt = self.sent.others.get("instance_uuid") if self.sent else None
        return spelt if spelt and canonical_uuid(spelt) == self.instance_uuid else self.instance_uuid

    def get_scheduler_hint(self, hint_name: str, default: Any = None) -> Any:
        """The value of a hint: a single text, or a list if there are none or several; `default` if not set."""
        values = self.scheduler_hints.get(hint_name)
        if values is None:
            return default
        return values[0] if len(values) == 1 else list(values)

    def to_legacy_request_spec_dict(self) -> dict[str, Any]:
        """The request_spec dict of nova releases before Mitaka; flavor, topology and devices are objects in it."""
        return to_request_spec(self)

    def to_legacy_filter_properties_dict(self) -> dict[str, Any]:
        """The filter_properties dict of nova releases before Mitaka, without empty members."""
        return to_filter_properties(self)

    def for_instance(self, uuid: str | None) -> RequestSpec:
        """A copy of the request for the instance with this uuid."""
        return self if uuid == self.instance_uuid else self.changed(instance_uuid=uuid)

    def with_group_host(self, host: str) -> RequestSpec:
        """A copy of the request whose server group also has `host`: one of its instances was placed there."""
        if self.instance_group is None:
            return self
        group = self.instance_group
        return self.with_group(group.updated(group.members, (*group.hosts, host)))

    def with_candidate(self, candidate: AllocationCandidate) -> RequestSpec:
        """A copy of the request as it takes this candidate; later instances have what is left of `candidates`."""
        assert self.candidates is not None  # noqa: S101 - the candidate is one of them
        return self.changed(candidate=candidate, candidates=self.candidates.without(candidate))

    def with_group(self, group: ServerGroup) -> RequestSpec:
        """A copy of the request with this server group."""
        return self.changed(instance_group=group)

    def placed_with(
        self, numa_topology: InstanceTopology | None, devices: tuple[Any, ...], is_fully_consumed: bool
    ) -> RequestSpec:
        """A copy of the request as consumed by a host: fitted to its NUMA cells, with assigned PCI devices."""
        return self.changed(numa_topology=numa_topology, pci_devices=devices, is_fully_consumed=is_fully_consumed)

    def changed(self, **fields: Any) -> RequestSpec:
        """A copy with the given values, which must be valid: they are not checked, because this is a hot path."""
        twin = object.__new__(RequestSpec)
        object.__setattr__(twin, "__dict__", {**self.__dict__, **fields})
        twin.__dict__.pop("_filter_properties", None)
        return twin


@lru_cache(maxsize=1024)
def _amounts_of(flavor: Flavor, is_bfv: bool, groups: tuple[RequestGroup, ...], order: Hashable) -> Mapping[str, int]:
    """`order`: that in which resource classes are written. Equal flavors may differ in it, and checks follow it."""
    return MappingProxyType(requested_amounts(flavor, is_bfv, [each.resources for each in groups]))


_AMOUNTS = IdentityCache[Mapping[str, int]]()
"""Amounts of recently used flavors; avoids hashing and comparing flavors."""
