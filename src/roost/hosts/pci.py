# SPDX-License-Identifier: Apache-2.0
"""The free PCI devices of a host, in pools of equal devices, and whether they can serve PCI requests.

`supports` answers for all requests of an instance, one after another from what the earlier ones left, so no two of
them share a device. One request is matched in steps (`matching_steps`: properties, NUMA policy, device type,
provider), each of which drops the pools that it rules out. `devices_reason` is one sentence, with the numbers, on why
not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from roost.errors import FieldError, RoostError
from roost.model.fields import AMOUNT, MAPPING, ListOf
from roost.model.kinds import Kind, OrNull, Schema, WholeNumber
from roost.model.pci import PLACEMENT_KEYS, PciRequest, Property, WrittenProperty, is_true_property, without_case

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


class PciUnavailable(RoostError):
    """The host's free devices cannot serve the PCI requests."""

    code = "roost.pci_unavailable"


def supports(
    pools: Sequence[Pool],
    requests: Sequence[PciRequest],
    *,
    cells: Sequence[int] | None = None,
    sockets: Mapping[int, int | None] | None = None,
    mappings: Mapping[str, Sequence[str]] | None = None,
) -> bool:
    """Whether the pools have the devices for all requests of an instance.

    `cells` are the NUMA nodes on which the instance is placed: without them no NUMA policy applies, not even
    `required`. `sockets` (NUMA node -> socket, for all nodes of the host) is for policy `socket`. `mappings` (request
    group -> providers) come from the allocation candidate.
    """
    placement = GuestPlacement(frozenset(cells) if cells else None, sockets, mappings)
    for request in requests:
        usable = usable_pools(pools, request, placement)
        if not usable:
            return False
        if len(requests) > 1:
            pools = remove_devices(pools, choose_devices(usable, request, placement))
    return True


def consume_devices(
    pools: Sequence[Pool],
    requests: Sequence[PciRequest],
    *,
    cells: Sequence[int] | None = None,
    sockets: Mapping[int, int | None] | None = None,
    mappings: Mapping[str, Sequence[str]] | None = None,
) -> tuple[Pools, Pools]:
    """The pools that are left, and the devices that the requests got, as pools with counts.

    Arguments are those of `supports`. PciUnavailable if a request cannot be served; its message is the reason.
    """
    placement = GuestPlacement(frozenset(cells) if cells else None, sockets, mappings)
    left, taken = tuple(pools), []
    for request in requests:
        usable = usable_pools(left, request, placement)
        if not usable:
            raise PciUnavailable(request_reason(pools, left, request, placement))
        devices = choose_devices(usable, request, placement)
        left = remove_devices(left, devices)
        taken += devices
    return left, tuple(taken)


def devices_reason(
    pools: Sequence[Pool],
    requests: Sequence[PciRequest],
    *,
    cells: Sequence[int] | None = None,
    sockets: Mapping[int, int | None] | None = None,
    mappings: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """One sentence on the first request that cannot be served; empty if all can. Arguments as for `supports`."""
    try:
        consume_devices(pools, requests, cells=cells, sockets=sockets, mappings=mappings)
    except PciUnavailable as error:
        return error.message
    return ""


class GuestPlacement(NamedTuple):
    """Where on the host the instance is placed; a field is None if it is not known."""

    cells: frozenset[int] | None
    """NUMA nodes of the host on which the instance is placed."""
    sockets: Mapping[int, int | None] | None
    """NUMA node -> socket, for all nodes of the host; a socket is None if it is not known."""
    mappings: Mapping[str, Sequence[str]] | None
    """Request group -> resource providers, of the allocation candidate."""


def matches(pool: Pool, request: PciRequest) -> bool:
    """Whether the devices have every property of one of the request's alternatives."""
    has = pool.comparable
    for alternative in request.alternatives:
        for key, wanted in alternative:
            if has.get(key) != wanted and not _has_all(has.get(key), wanted):
                break
        else:
            return True
    return False


def _has_all(found: Property, wanted: Property) -> bool:
    return isinstance(found, tuple) and isinstance(wanted, tuple) and set(wanted) <= set(found)


def providers_for(request: PciRequest, mappings: Mapping[str, Sequence[str]] | None) -> Mapping[str, int]:
    """Provider -> number of devices that the allocation candidate takes from it; empty if it names no provider."""
    if not mappings or not request.request_id or request.is_from_port:
        return {}
    groups = [found for name, found in mappings.items() if name.startswith(request.request_id)]
    return Counter(found[0] for found in groups if found)


def usable_pools(pools: Sequence[Pool], request: PciRequest, placement: GuestPlacement) -> list[Pool]:
    """The pools that may serve the request, best first; empty if they have too few devices."""
    *_, (_, usable) = matching_steps(pools, request, placement)
    if free_devices(usable) < request.count or missing_providers(usable, request, placement):
        return []
    return usable


def matching_steps(
    pools: Sequence[Pool], request: PciRequest, placement: GuestPlacement
) -> Iterator[tuple[str, list[Pool]]]:
    """The pools left after each step, in order, and a phrase that describes the devices which the step dropped.

    NUMA affinity is checked for enough devices before the later steps drop some, as nova does. `live_migratable`
    needs no step: a pool without that tag has failed the property match.
    """
    left = [pool for pool in pools if matches(pool, request)]
    yield "for the instance's other requests", left
    if placement.cells is not None:
        left = _pools_by_affinity(left, request, placement.cells, placement.sockets)
        yield "too far from the instance's NUMA nodes", left
    for device_type in request.excluded_device_types:
        unasked = without_case(device_type)
        left = [pool for pool in left if pool.comparable.get("dev_type") != unasked]
        yield device_type, left
    if not request.wants_remote_managed:
        left = [pool for pool in left if not is_true_property(pool.comparable.get("remote_managed"))]
        yield "remote-managed", left
    if providers := providers_for(request, placement.mappings):
        left = [pool for pool in left if 0 < providers.get(pool.get("rp_uuid"), 0) <= pool.count]
        yield "with other providers", left


def _pools_by_affinity(
    pools: list[Pool], request: PciRequest, cells: frozenset[int], sockets: Mapping[int, int | None] | None
) -> list[Pool]:
    """The pools that the request's NUMA policy allows, nearest first."""
    near = [pool for pool in pools if pool.numa_node in cells]
    if request.policy == "required" or free_devices(near) >= request.count:
        return near
    if request.policy == "socket":
        return _pools_on_sockets(pools, cells, sockets or {})
    usable = [pool for pool in pools if pool.numa_node is None or pool.numa_node in cells]
    if request.policy == "legacy" or free_devices(usable) >= request.count:
        return usable
    return usable + [pool for pool in pools if pool.numa_node is not None and pool.numa_node not in cells]


def _pools_on_sockets(pools: list[Pool], cells: frozenset[int], sockets: Mapping[int, int | None]) -> list[Pool]:
    if None in sockets.values():  # the nodes of a socket are not certain
        return []
    wanted = {sockets[cell] for cell in cells if cell in sockets}
    nodes = {node for node, socket in sockets.items() if socket in wanted}
    return [pool for pool in pools if pool.numa_node in nodes]


def missing_providers(usable: Iterable[Pool], request: PciRequest, placement: GuestPlacement) -> list[str]:
    """The providers that the allocation candidate names for the request and no usable pool belongs to."""
    providers = providers_for(request, placement.mappings)
    if not providers:
        return []
    found = {pool.get("rp_uuid") for pool in usable}
    return [provider for provider in providers if provider not in found]


def choose_devices(usable: Sequence[Pool], request: PciRequest, placement: GuestPlacement) -> list[Pool]:
    """The devices that the request gets, as pools with counts.

    They are taken per provider as the allocation candidate says; if it names none, from the pools in order.
    """
    if providers := providers_for(request, placement.mappings):
        first = {pool.get("rp_uuid"): pool for pool in reversed(usable)}
        return [first[provider].with_count(count) for provider, count in providers.items()]
    chosen: list[Pool] = []
    missing = request.count
    for pool in usable:
        if count := min(missing, pool.count):
            chosen.append(pool.with_count(count))
            missing -= count
    return chosen


def request_reason(
    pools: Sequence[Pool], left: Sequence[Pool], request: PciRequest, placement: GuestPlacement
) -> str:
    """Why a request cannot be served. `pools`: all of the host; `left`: without devices of earlier requests."""
    steps = list(matching_steps(left, request, placement))
    free = free_devices(pool for pool in pools if matches(pool, request))
    if placement.cells and (
        sentence := _wrong_nodes_reason(steps[0][1], steps[1][1], request, placement.cells, placement.sockets)
    ):
        return sentence
    asked = f"{request.count} {'device' if request.count == 1 else 'devices'} {_describe(request)} asked"
    if free_devices(steps[0][1]) >= request.count and (
        missing := missing_providers(steps[-1][1], request, placement)
    ):
        wanted = providers_for(request, placement.mappings)[missing[0]]
        has = max((pool.count for pool in steps[-2][1] if pool.get("rp_uuid") == missing[0]), default=0)
        return f"{asked}, {wanted} of them from provider {missing[0]}, whose pool has {has}"
    losses = _losses(free, steps)
    return f"{asked}; {free} free" + (f", less {_join_words(losses)}" if losses else "")


def _losses(free: int, steps: Iterable[tuple[str, list[Pool]]]) -> list[str]:
    """For each step that dropped devices, their number and what they are: `3 type-PF`."""
    losses = []
    for words, left in steps:
        now = free_devices(left)
        if now < free:
            losses.append(f"{free - now} {words}")
        free = now
    return losses


def _wrong_nodes_reason(
    before: Sequence[Pool],
    after: Sequence[Pool],
    request: PciRequest,
    cells: frozenset[int],
    sockets: Mapping[int, int | None] | None,
) -> str:
    """The sentence for enough free devices that are all on the wrong NUMA nodes; empty if that is not the case.

    `before` and `after`: the pools before and after the NUMA policy was applied.
    """
    if free_devices(after) or free_devices(before) < max(1, request.count):
        return ""
    needed = f"the socket of {_list_nodes(cells)}" if request.policy == "socket" else _list_nodes(cells)
    if request.policy == "socket" and (not sockets or None in sockets.values()):
        return f"the request needs {_describe(request)} devices on {needed}; which socket a node is on is not known"
    return f"free {_describe(request)} devices are on {_list_locations(before)}; the request needs {needed}"


def _list_locations(pools: Iterable[Pool]) -> str:
    seen = {pool.numa_node for pool in pools if pool.count}
    known = [node for node in seen if node is not None]
    unknown = ["no known NUMA node"] if None in seen else []
    return _join_words([f"NUMA {_list_nodes(known)}", *unknown] if known else unknown)


def _list_nodes(cells: Iterable[int]) -> str:
    ordered = sorted(cells)
    return f"{'node' if len(ordered) == 1 else 'nodes'} {_join_words([str(each) for each in ordered])}"


def _join_words(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _describe(request: PciRequest) -> str:
    """The devices asked for: `10de:1eb8 type-VF`; the alias if an alternative names neither ids nor properties."""
    names = dict.fromkeys(_describe_alternative(dict(each)) for each in request.spec)
    if not all(names):
        return request.alias_name or "*:*"
    return " or ".join(names) or "of no kind"


def _describe_alternative(wanted: dict[str, Property]) -> str:
    vendor, product = wanted.pop("vendor_id", None), wanted.pop("product_id", None)
    words = [f"{vendor or '*'}:{product or '*'}"] if vendor or product else []
    if device_type := wanted.pop("dev_type", None):
        words.append(str(device_type))
    words += [f"{key}={value}" for key, value in wanted.items() if key not in PLACEMENT_KEYS]
    return " ".join(words)
