# SPDX-License-Identifier: Apache-2.0
"""What somebody wants placed."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any, ClassVar

from roost.errors import FieldError
from roost.model import checks
from roost.model.flavor import Flavor
from roost.model.group import ServerGroup
from roost.model.image import Image
from roost.model.item_access import AttributesAsItems
from roost.model.lazy import IdentityCache, lazy
from roost.model.legacy import OlderForm, as_filter_properties, to_filter_properties, to_request_spec
from roost.model.message_fields import FromMessage
from roost.model.numa import InstanceTopology
from roost.model.pci import PciRequest
from roost.model.request_parts import (
    Destination,
    Limits,
    NetworkMetadata,
    NetworkRequest,
    RequestGroup,
    RequestLevelParams,
    Retry,
    SecurityGroup,
    parts_of,
)
from roost.model.resources import requested_amounts, requested_traits

PARTS: dict[str, type] = {
    "flavor": Flavor,
    "image": Image,
    "instance_group": ServerGroup,
    "requested_destination": Destination,
    "retry": Retry,
    "limits": Limits,
    "request_level_params": RequestLevelParams,
    "network_metadata": NetworkMetadata,
}
"""Field -> class, of the fields that are records of their own."""

LISTED_PARTS: dict[str, type] = {
    "requested_resources": RequestGroup,
    "security_groups": SecurityGroup,
    "requested_networks": NetworkRequest,
}
"""Field -> class, of the fields that are lists of such records; mappings will do as well."""

_NEVER_NULL = ("flavor", "request_level_params")
_NO_PARAMS = RequestLevelParams()


@dataclass(frozen=True)
class RequestSpec(FromMessage, AttributesAsItems):
    """One request: so many instances of one flavor, and the conditions on where.

    Reads by attribute (`spec.flavor.memory_mb`) and in the older spelling of filter_properties
    (`spec.get('instance_type')['memory_mb']`, `spec['scheduler_hints']`).
    """

    flavor: Flavor
    image: Image | None = None
    num_instances: int = 1
    instance_uuid: str | None = None
    project_id: str | None = None
    user_id: str | None = None
    availability_zone: str | None = None
    scheduler_hints: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Name -> list of texts; a single text stands for a list of one."""
    instance_group: ServerGroup | None = None
    ignore_hosts: tuple[str, ...] | None = None
    force_hosts: tuple[str, ...] | None = None
    force_nodes: tuple[str, ...] | None = None
    requested_destination: Destination | None = None
    retry: Retry | None = None
    is_bfv: bool = False
    """Booted from a volume: the root disk takes nothing from the host."""
    numa_topology: InstanceTopology | None = None
    """The guest's NUMA nodes; once placed, as they were fitted to the host's."""
    pci_requests: tuple[PciRequest, ...] = ()
    pci_devices: tuple[Any, ...] = ()
    """Once placed: the pools of devices that one instance was given."""
    is_fully_consumed: bool = True
    """Once placed: False where the host could not give the devices, which its own claim will find out."""
    requested_resources: tuple[RequestGroup, ...] = ()
    """What ports and accelerators need besides the flavor."""
    request_level_params: RequestLevelParams = _NO_PARAMS
    network_metadata: NetworkMetadata | None = None
    limits: Limits | None = None
    """Ceilings of an earlier choice; nothing is decided by them."""
    security_groups: tuple[SecurityGroup, ...] = ()
    requested_networks: tuple[NetworkRequest, ...] = ()
    config_options: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """What the JSON options file of older releases says, for plugins that read it."""
    older_form: OlderForm = field(default=OlderForm(), compare=False, repr=False)
    """The dicts of older releases; empty where it did not come in such."""

    unheld: ClassVar[Mapping[str, Any]] = MappingProxyType({"id": None})

    def __post_init__(self) -> None:
        for name, kind in PARTS.items():
            part = getattr(self, name)
            if not isinstance(part, kind) and (part is not None or name in _NEVER_NULL):
                raise FieldError(name, f"{checks.shown(part)} is not of the class {kind.__name__}")
        instances = checks.whole_number(self.num_instances, "num_instances", least=1)
        object.__setattr__(self, "num_instances", instances)
        checks.flag(self.is_bfv, "is_bfv")
        for name in ("instance_uuid", "project_id", "user_id", "availability_zone"):
            checks.optional_text(getattr(self, name), name)
        for name in ("ignore_hosts", "force_hosts", "force_nodes"):
            listed = getattr(self, name)
            object.__setattr__(self, name, checks.names(listed, name) if listed is not None else None)
        for name in ("pci_requests", "pci_devices"):
            object.__setattr__(self, name, _as_tuple(getattr(self, name), name))
        _check_class(self.numa_topology, (InstanceTopology, type(None)), "numa_topology")
        for at, each in enumerate(self.pci_requests):
            _check_class(each, (PciRequest,), f"pci_requests[{at}]")
        for name, kind in LISTED_PARTS.items():
            if (listed := getattr(self, name)) != ():
                object.__setattr__(self, name, parts_of(kind, () if listed is None else listed, name))
        object.__setattr__(self, "config_options", checks.mapping(self.config_options, "config_options"))
        hints = checks.mapping(self.scheduler_hints, "scheduler_hints")
        listed = {name: _as_texts(value, f"scheduler_hints.{name}") for name, value in hints.items()}
        object.__setattr__(self, "scheduler_hints", checks.mapping(listed, "scheduler_hints"))

    def __getitem__(self, key: str) -> Any:
        """A member of nova's older filter_properties dict, or else the attribute of that name."""
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
        """What one instance takes, per resource class."""
        if self.is_bfv or self.requested_resources:
            return _amounts_of(self.flavor, self.is_bfv, self.requested_resources)
        return _AMOUNTS.get(self.flavor) or _AMOUNTS.put(self.flavor, _amounts_of(self.flavor, False, ()))

    @lazy
    def traits(self) -> tuple[frozenset[str], frozenset[str]]:
        """Traits the host must have, and must not have, whoever asks for them."""
        _, forbidden = requested_traits(self.flavor.extra_specs)
        required, params, groups = self.marked_traits, self.request_level_params, self.requested_resources
        if params is _NO_PARAMS and not groups:
            return required, forbidden
        required = required.union(params.root_required, *(each.required_traits for each in groups))
        return required, forbidden.union(params.root_forbidden, *(each.forbidden_traits for each in groups))

    @lazy
    def needs_besides(self) -> Hashable:
        """What it needs besides flavor and image: all that can change an answer; None where it is nothing."""
        params, groups = self.request_level_params, self.requested_resources
        if not groups and (params is _NO_PARAMS or not (params.root_required or params.root_forbidden)):
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
        """Groups that one part of a host must serve together."""
        return self.request_level_params.same_subtree

    @property
    def is_rebuild(self) -> bool:
        """Only asks whether the instance may stay where it is with another image; takes no resources."""
        return self.scheduler_hints.get("_nova_check_type") == ("rebuild",)

    def get_scheduler_hint(self, hint_name: str, default: Any = None) -> Any:
        """A hint: its single value, or the list where there are none or several."""
        values = self.scheduler_hints.get(hint_name)
        if values is None:
            return default
        return values[0] if len(values) == 1 else list(values)

    def to_legacy_request_spec_dict(self) -> dict[str, Any]:
        """The request_spec dict of releases before Mitaka; flavor, topology and devices are objects in it."""
        return to_request_spec(self)

    def to_legacy_filter_properties_dict(self) -> dict[str, Any]:
        """The filter_properties dict that went with it, without what is empty."""
        return to_filter_properties(self)

    def for_instance(self, uuid: str | None) -> RequestSpec:
        """The same request, about this one of its instances."""
        return self if uuid == self.instance_uuid else self.changed(instance_uuid=uuid)

    def with_group_host(self, host: str) -> RequestSpec:
        """The same request after one of its instances went to `host`: the group is there now too."""
        if self.instance_group is None:
            return self
        group = self.instance_group
        return self.with_group(group.updated(group.members, (*group.hosts, host)))

    def with_group(self, group: ServerGroup) -> RequestSpec:
        """The same request with this group."""
        return self.changed(instance_group=group)

    def placed_with(
        self, numa_topology: InstanceTopology | None, devices: tuple[Any, ...], is_fully_consumed: bool
    ) -> RequestSpec:
        """The same request as a host took it in: fitted to its NUMA cells, with devices of its own."""
        return self.changed(numa_topology=numa_topology, pci_devices=devices, is_fully_consumed=is_fully_consumed)

    def changed(self, **fields: Any) -> RequestSpec:
        """A copy with other values that are known to be good: on the hot path there is nothing to check again."""
        twin = object.__new__(RequestSpec)
        object.__setattr__(twin, "__dict__", {**self.__dict__, **fields})
        twin.__dict__.pop("_filter_properties", None)
        return twin


@lru_cache(maxsize=1024)
def _amounts_of(flavor: Flavor, is_bfv: bool, groups: tuple[RequestGroup, ...]) -> Mapping[str, int]:
    return MappingProxyType(requested_amounts(flavor, is_bfv, [each.resources for each in groups]))


_AMOUNTS = IdentityCache[Mapping[str, int]]()
"""Of flavors that were just seen: no need to compare them."""


def _check_class(value: Any, kinds: tuple[type, ...], field: str) -> None:
    if not isinstance(value, kinds):
        raise FieldError(field, f"{checks.shown(value)} is not of the class {kinds[0].__name__}")


def _as_tuple(value: Any, field: str) -> tuple[Any, ...]:
    if not isinstance(value, (list, tuple)):
        raise FieldError(field, f"{checks.shown(value)} is not a list")
    return tuple(value)


def _as_texts(value: Any, where: str) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, (list, tuple)):
        raise FieldError(where, f"{checks.shown(value)} is no text and no list of texts")
    for each in value:
        if not isinstance(each, str):
            raise FieldError(where, f"{checks.shown(each)} is not text", "put it in quotes")
    return tuple(value)
