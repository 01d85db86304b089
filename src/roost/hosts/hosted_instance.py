# SPDX-License-Identifier: Apache-2.0
"""Instances as plugins see them, with the attribute names of nova's Instance."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from roost.hosts.instance import Instance
from roost.model.flavor import AttributesAsItems, Flavor
from roost.model.kinds import FrozenDict, OrNull, Timestamp
from roost.model.lazy import IdentityCache
from roost.model.resources import DISK_GB, MEMORY_MB, VCPU

if TYPE_CHECKING:
    from roost.hosts.table import HostTable

_TIME = OrNull(Timestamp())
IMAGE_PREFIX = "image_"
"""Prefix of the entries of an instance's system metadata that come from its image."""


class HostedInstance(AttributesAsItems):
    """An instance in the form that nova's filters expect: its record, and the host and node that it runs on."""

    def __init__(self, instance: Instance, host: str, node: str, flavors: Mapping[str, Flavor]) -> None:
        """`flavors`: name -> flavor, for an instance whose record only has the id of its flavor."""
        self._instance, self._flavors = instance, flavors
        self.host, self.node = host, node

    def __getattr__(self, name: str) -> Any:
        """The attributes of its `Instance` record."""
        if name.startswith("_"):  # copy and pickle look up such names before __init__ has run
            raise AttributeError(name)
        return getattr(self._instance, name)

    @property
    def flavor(self) -> Flavor:
        """The flavor it was placed with; if that is not known, a flavor of the size of its allocation.

        Extra specs of an unknown flavor are empty; the first plugin that reads them causes a warning in the log.
        """
        known = self._instance
        if known.flavor is not None:
            return known.flavor
        if found := flavors_by_key(self._flavors).get(known.flavor_id):
            return found
        vcpus, memory_mb, disk_gb = (known.resources.get(each, 0) for each in (VCPU, MEMORY_MB, DISK_GB))
        flavor = Flavor(vcpus=vcpus, memory_mb=memory_mb, root_gb=disk_gb, id=known.flavor_id)
        vars(flavor)["extra_specs"] = UnknownExtraSpecs(f"{known.uuid} on host {self.host}")
        return flavor

    instance_type = flavor

    @property
    def instance_type_id(self) -> Any:
        """The id of the flavor, under its name in older releases of nova."""
        return self._instance.flavor_id

    @property
    def system_metadata(self) -> Mapping[str, str]:
        """The system metadata of nova: the properties of its image, and what else its agent sent."""
        known = self._instance
        found = {f"{IMAGE_PREFIX}base_image_ref": known.image_ref} if known.image_ref else {}
        found |= {f"{IMAGE_PREFIX}{name}": text for name, text in known.image_props.items()}
        return FrozenDict(found | dict(known.system_metadata))

    @property
    def created_at(self) -> datetime | None:
        """When it was created, in UTC: as its agent said, or else when it was claimed. None: not known."""
        time: datetime | None = _TIME.strict(self._instance.created_at or self._instance.recorded_at, "created_at")
        return time

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HostedInstance) and (self._instance, self.host) == (other._instance, other.host)

    def __hash__(self) -> int:
        return hash(self._instance.uuid)

    def __repr__(self) -> str:
        return f"HostedInstance({self.uuid} on {self.host})"


def flavors_by_key(flavors: Mapping[str, Flavor]) -> Mapping[Any, Flavor]:
    """Id, flavorid or name -> flavor, in this precedence: what an instance may give as its `flavor_id`."""
    return _INDEXES.get(flavors) or _INDEXES.put(flavors, _index(flavors))


def _index(flavors: Mapping[str, Flavor]) -> dict[Any, Flavor]:
    index: dict[Any, Flavor] = {}
    for field in ("id", "flavorid", "name"):
        for each in flavors.values():
            if key := getattr(each, field):
                index.setdefault(key, each)
    return index


_INDEXES = IdentityCache[dict[Any, Flavor]](most=16)


class UnknownExtraSpecs(FrozenDict[str]):
    """Empty extra specs of a flavor of which only the size is known: a plugin that reads them may decide wrongly.

    nova has no such case. `roost.compat` logs a warning for the first read in a process.
    """

    on_read: ClassVar[Callable[[str], None]] = staticmethod(lambda owner: None)
    """Called with the instance and its host when a plugin reads the extra specs."""

    def __init__(self, owner: str) -> None:
        """`owner`: the instance and its host."""
        super().__init__()
        self._owner = owner

    def _read(self) -> Mapping[str, str]:
        UnknownExtraSpecs.on_read(self._owner)
        return _NO_SPECS

    def __getitem__(self, key: str) -> str:
        return self._read()[key]

    def __contains__(self, key: object) -> bool:
        return key in self._read()

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def get(self, key: str, default: Any = None) -> Any:
        """The default, for every key."""
        return self._read().get(key, default)

    def keys(self) -> Any:
        """No keys."""
        return self._read().keys()

    def values(self) -> Any:
        """No values."""
        return self._read().values()

    def items(self) -> Any:
        """No items."""
        return self._read().items()


_NO_SPECS: Mapping[str, str] = FrozenDict()


class HostedInstances(Mapping[str, HostedInstance]):
    """The instances of one host, by uuid: a live mapping that reflects later changes."""

    def __init__(self, by_uuid: Mapping[str, Instance], host: str, node: str, flavors: Mapping[str, Flavor]) -> None:
        self._by_uuid, self._host, self._node, self._flavors = by_uuid, host, node, flavors

    def __getitem__(self, uuid: str) -> HostedInstance:
        return HostedInstance(self._by_uuid[uuid], self._host, self._node, self._flavors)

    def __contains__(self, uuid: object) -> bool:
        return uuid in self._by_uuid

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_uuid)

    def __len__(self) -> int:
        return len(self._by_uuid)


def instances_at(table: HostTable, row: int) -> HostedInstances:
    """The instances on a row of the table, by uuid."""
    return HostedInstances(table.instances.get(row, {}), *table.names[row], table.flavors)
