# SPDX-License-Identifier: Apache-2.0
"""The free PCI devices of a host, in pools of equal devices, and the JSON form of pools.

Whether pools can serve the PCI requests of an instance is in `pci_fit.py`, one request in `pci_matching.py`, the
reason against a host in `pci_reasons.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from roost.errors import FieldError
from roost.model.fields import AMOUNT, MAPPING, ListOf
from roost.model.kinds import Kind, OrNull, Schema, WholeNumber
from roost.model.pci import Property, WrittenProperty, without_case

DeviceProperties = tuple[tuple[str, Property], ...]
"""(key, value) pairs, sorted by key."""


class Pool:
    """Free devices with equal properties, and their number. Immutable and hashable.

    Reads like nova's pool: `pool["vendor_id"]`, `pool.get("dev_type")`.
    """

    __slots__ = ("_hash", "_values", "comparable", "count", "numa_node", "properties")

    properties: DeviceProperties
    """All properties of the devices, `numa_node` always included."""
    count: int
    """Number of free devices."""
    numa_node: int | None
    """NUMA node of the host that the devices are attached to; None if it is not known."""
    comparable: Mapping[str, Property]
    """The properties in lower case, as they are compared with requests."""

    _hash: int
    _values: Mapping[str, Property]

    def __init__(self, properties: Iterable[tuple[str, Property]], count: int) -> None:
        values = {"numa_node": None} | dict(properties)
        put = object.__setattr__
        put(self, "properties", tuple(sorted(values.items())))
        put(self, "numa_node", values["numa_node"])
        put(self, "comparable", {key: without_case(value) for key, value in values.items()})
        put(self, "_values", values)
        self._set_count(count)

    def _set_count(self, count: int) -> None:
        object.__setattr__(self, "count", count)
        object.__setattr__(self, "_hash", hash((self.properties, count)))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a pool does not change: {name!r} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a pool does not change: {name!r} cannot be deleted")

    def __reduce__(self) -> tuple[type[Pool], tuple[Any, ...]]:
        return Pool, (self.properties, self.count)  # the hash is not stored: texts hash differently in each process

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Pool):
            return NotImplemented
        return self.count == other.count and self.properties == other.properties

    def __repr__(self) -> str:
        return f"Pool({self.to_dict()})"

    def __getitem__(self, key: str) -> Any:
        return self.count if key == "count" else self._values[key]

    def get(self, key: str, default: Any = None) -> Any:
        """The property of that name, the number of devices for `count`; the default if there is no such property."""
        return self.count if key == "count" else self._values.get(key, default)

    def to_dict(self) -> dict[str, Any]:
        """The pool as a mapping, as in a fleet file: a copy that the caller may change."""
        plain = {key: list(value) if isinstance(value, tuple) else value for key, value in self.properties}
        return plain | {"count": self.count}

    def with_count(self, count: int) -> Pool:
        """A pool of devices with equal properties, so many of them."""
        twin = object.__new__(Pool)
        for name in ("properties", "numa_node", "comparable", "_values"):
            object.__setattr__(twin, name, getattr(self, name))
        twin._set_count(count)
        return twin


Pools = tuple[Pool, ...]
"""Several pools; those of a host are sorted by their number of properties, fewest first."""


_TEXT = WrittenProperty()
_TEXTS = ListOf(_TEXT)
_NUMA_NODE = OrNull(WholeNumber(least=-1))
_REQUIRED = ("vendor_id", "product_id", "count")


class _PoolRecord(Kind[Pool]):
    """A pool as a mapping: count, numa_node, and properties of any name that are texts or lists of texts."""

    def strict(self, value: Any, field: str) -> Pool:
        """A pool."""
        record = dict(MAPPING.strict(value, field))
        for name in _REQUIRED:
            if record.get(name) is None:
                raise FieldError(f"{field}.{name}", "is missing", "a pool cannot do without it")
        count = AMOUNT.strict(record.pop("count"), f"{field}.count")
        node = record.pop("numa_node", None)
        properties: dict[str, Property] = {key: _property(each, f"{field}.{key}") for key, each in record.items()}
        properties["numa_node"] = _NUMA_NODE.strict(node, f"{field}.numa_node")
        return Pool(properties.items(), count)

    @property
    def schema(self) -> Schema:
        """An object with these properties and any others."""
        node = {"type": ["integer", "null"], "minimum": -1}
        return {"type": "object", "required": [*_REQUIRED], "properties": {"count": AMOUNT.schema, "numa_node": node}}


def _property(value: Any, field: str) -> Property:
    if isinstance(value, (list, tuple)):
        texts: tuple[str, ...] = _TEXTS.strict(value, field)
        return texts
    return None if value is None else _TEXT.strict(value, field)


def _in_order(pools: Iterable[Pool]) -> Pools:
    """Plain pools before those with more properties, so that special devices are kept for requests that need them."""
    return tuple(sorted(pools, key=lambda pool: len(pool.properties)))


POOLS = OrNull(ListOf(_PoolRecord(), make=_in_order, mismatch="is not a list of pools"), unset=())
"""The pools of a host, those with the fewest properties first; null is none."""


def pools_from_json(data: Any) -> Pools:
    """The pools of a host, those with the fewest properties first; None stands for none."""
    pools: Pools = POOLS.strict(data, "")
    return pools


def free_devices(pools: Iterable[Pool]) -> int:
    """The number of free devices in all pools."""
    return sum([pool.count for pool in pools])


def free_devices_per_cell(pools: Iterable[Pool]) -> dict[int, int]:
    """NUMA node -> number of free devices attached to it; devices whose node is not known are left out."""
    found: dict[int, int] = {}
    for pool in pools:
        if pool.numa_node is not None:
            found[pool.numa_node] = found.get(pool.numa_node, 0) + pool.count
    return found


def remove_devices(pools: Iterable[Pool], devices: Iterable[Pool]) -> Pools:
    """The pools without `devices`, which are given as pools with counts; a pool without devices left is dropped."""
    due = count_by_properties(devices)
    left = []
    for pool in pools:
        removed = min(pool.count, due.get(pool.properties, 0))
        if not removed:
            left.append(pool)
            continue
        due[pool.properties] -= removed
        if pool.count > removed:
            left.append(pool.with_count(pool.count - removed))
    return tuple(left)


def release_devices(pools: Sequence[Pool], devices: Sequence[Pool]) -> Pools:
    """The pools with `devices`, which are given as pools with counts, added to those with equal properties."""
    due = count_by_properties(devices)
    merged = [pool.with_count(pool.count + more) if (more := due.pop(pool.properties, 0)) else pool for pool in pools]
    kinds = {pool.properties: pool for pool in devices}
    return _in_order([*merged, *(kinds[properties].with_count(count) for properties, count in due.items() if count)])


def count_by_properties(pools: Iterable[Pool]) -> dict[DeviceProperties, int]:
    """Properties -> number of devices that have them."""
    found: dict[DeviceProperties, int] = {}
    for pool in pools:
        found[pool.properties] = found.get(pool.properties, 0) + pool.count
    return found
