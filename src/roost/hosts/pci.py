# SPDX-License-Identifier: Apache-2.0
"""PCI devices that a host has free, in pools, and whether they do for an instance's requests.

A request is tried on the pools step by step (`_narrow`): each step drops the pools it may not use. Several
requests are served one after another, so they never share a device.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from roost.errors import FieldError, RoostError
from roost.model.pci import NOT_MATCHED, PciRequest, Property, WrittenProperty, is_true, without_case
from roost.validation.containers import ListOf
from roost.validation.kinds import Kind, OrNull, Schema, WholeNumber
from roost.validation.vocabulary import AMOUNT, MAPPING

Properties = tuple[tuple[str, Property], ...]
"""(key, value) in the order of the keys."""


class PciUnavailable(RoostError):
    """The host's free devices do not do for the requests."""

    code = "roost.pci_unavailable"


class Pool:
    """Free devices that are all alike: their properties and how many there are.

    Reads like nova's pool (`pool["vendor_id"]`, `pool.get("dev_type")`) and never changes, so it can be a key.
    """

    __slots__ = ("_hash", "_values", "comparable", "count", "numa_node", "properties")

    properties: Properties
    """`numa_node` is always among them."""
    count: int
    numa_node: int | None
    comparable: Mapping[str, Property]
    """The properties as requests are compared with them."""

    _hash: int
    _values: Mapping[str, Property]

    def __init__(self, properties: Iterable[tuple[str, Property]], count: int) -> None:
        values = {"numa_node": None} | dict(properties)
        put = object.__setattr__
        put(self, "properties", tuple(sorted(values.items())))
        put(self, "numa_node", values["numa_node"])
        put(self, "comparable", {key: without_case(value) for key, value in values.items()})
        put(self, "_values", values)
        self._count(count)

    def _count(self, count: int) -> None:
        object.__setattr__(self, "count", count)
        object.__setattr__(self, "_hash", hash((self.properties, count)))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a pool does not change: {name!r} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a pool does not change: {name!r} cannot be deleted")

    def __reduce__(self) -> tuple[type[Pool], tuple[Any, ...]]:
        return Pool, (self.properties, self.count)  # another process hashes texts differently

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
        """The property of that name, the number of devices for `count`, or the default."""
        return self.count if key == "count" else self._values.get(key, default)

    def to_dict(self) -> dict[str, Any]:
        """The pool as it is written in a fleet file: a copy that the caller may change."""
        plain = {key: list(value) if isinstance(value, tuple) else value for key, value in self.properties}
        return plain | {"count": self.count}

    def with_count(self, count: int) -> Pool:
        """A pool of devices with equal properties, so many of them."""
        twin = object.__new__(Pool)
        for name in ("properties", "numa_node", "comparable", "_values"):
            object.__setattr__(twin, name, getattr(self, name))
        twin._count(count)
        return twin


Pools = tuple[Pool, ...]


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
    """How many devices there are."""
    return sum([pool.count for pool in pools])


def free_devices_per_cell(pools: Iterable[Pool]) -> dict[int, int]:
    """NUMA node -> free devices there; devices of no known node are left out, and nodes without a pool."""
    found: dict[int, int] = {}
    for pool in pools:
        if pool.numa_node is not None:
            found[pool.numa_node] = found.get(pool.numa_node, 0) + pool.count
    return found


# --- what callers ask -----------------------------------------------------------------------------


class _GuestPlace(NamedTuple):
    """Where on the host the instance would be; None: not known."""

    cells: frozenset[int] | None
    """NUMA nodes of the host that the instance is given."""
    sockets: Mapping[int, int | None] | None
    """NUMA node -> socket, for all nodes of the host."""
    mappings: Mapping[str, Sequence[str]] | None
    """Request group -> providers, of the allocation candidate."""


def supports(
    pools: Sequence[Pool],
    requests: Sequence[PciRequest],
    *,
    cells: Sequence[int] | None = None,
    sockets: Mapping[int, int | None] | None = None,
    mappings: Mapping[str, Sequence[str]] | None = None,
) -> bool:
    """Whether the pools have the devices for all requests together.

    `cells` are the NUMA nodes the instance is given: without them no NUMA policy applies, not even `required`.
    `sockets` (NUMA node -> socket, for all nodes of the host) is for policy `socket`; `mappings` are those of the
    allocation candidate (request group -> providers).
    """
    place = _GuestPlace(frozenset(cells) if cells else None, sockets, mappings)
    for request in requests:
        usable = _usable(pools, request, place)
        if not usable:
            return False
        if len(requests) > 1:
            pools = _without(pools, _portions(usable, request, place))
    return True


def take(
    pools: Sequence[Pool],
    requests: Sequence[PciRequest],
    *,
    cells: Sequence[int] | None = None,
    sockets: Mapping[int, int | None] | None = None,
    mappings: Mapping[str, Sequence[str]] | None = None,
) -> tuple[Pools, Pools]:
    """The pools that are left, and what was taken: pools of the same properties. Arguments as `supports`."""
    place = _GuestPlace(frozenset(cells) if cells else None, sockets, mappings)
    left, taken = tuple(pools), []
    for request in requests:
        usable = _usable(left, request, place)
        if not usable:
            raise PciUnavailable(_reason(pools, left, request, place))
        portions = _portions(usable, request, place)
        left = _without(left, portions)
        taken += portions
    return left, tuple(taken)


def give_back(pools: Sequence[Pool], taken: Sequence[Pool]) -> Pools:
    """The pools after devices that were taken came back to them."""
    due = _counted(taken)
    merged = [pool.with_count(pool.count + more) if (more := due.pop(pool.properties, 0)) else pool for pool in pools]
    kinds = {pool.properties: pool for pool in taken}
    return _in_order([*merged, *(kinds[properties].with_count(count) for properties, count in due.items() if count)])


def why_not(
    pools: Sequence[Pool],
    requests: Sequence[PciRequest],
    *,
    cells: Sequence[int] | None = None,
    sockets: Mapping[int, int | None] | None = None,
    mappings: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """One sentence on the first request that cannot be met; empty where all can. Arguments as `supports`."""
    try:
        take(pools, requests, cells=cells, sockets=sockets, mappings=mappings)
    except PciUnavailable as error:
        return error.message
    return ""


# --- one request ----------------------------------------------------------------------------------


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
    """Provider -> devices that the allocation candidate takes from it for this request; empty: it does not say."""
    if not mappings or not request.request_id or request.is_from_port:
        return {}
    groups = [found for name, found in mappings.items() if name.startswith(request.request_id)]
    return Counter(found[0] for found in groups if found)


def _usable(pools: Sequence[Pool], request: PciRequest, place: _GuestPlace) -> list[Pool]:
    """The pools the request may be served from, best first; none where they have too few devices."""
    *_, (_, usable) = _narrow(pools, request, place)
    if free_devices(usable) < request.count or _lacking(usable, request, place):
        return []
    return usable


def _narrow(pools: Sequence[Pool], request: PciRequest, place: _GuestPlace) -> Iterator[tuple[str, list[Pool]]]:
    """The pools left after each step, and a word for those that the step dropped.

    Whether NUMA affinity leaves enough is judged before the later steps, as nova does. A wish for
    `live_migratable` needs no step: a pool that is not tagged so has failed the property match.
    """
    left = [pool for pool in pools if matches(pool, request)]
    yield "for the instance's other requests", left
    if place.cells is not None:
        left = _near(left, request, place.cells, place.sockets)
        yield "too far from the instance's NUMA nodes", left
    for device_type in request.unasked_device_types:
        unasked = without_case(device_type)
        left = [pool for pool in left if pool.comparable.get("dev_type") != unasked]
        yield device_type, left
    if not request.wants_remote_managed:
        left = [pool for pool in left if not is_true(pool.comparable.get("remote_managed"))]
        yield "remote-managed", left
    if providers := providers_for(request, place.mappings):
        left = [pool for pool in left if 0 < providers.get(pool.get("rp_uuid"), 0) <= pool.count]
        yield "with other providers", left


def _near(
    pools: list[Pool], request: PciRequest, cells: frozenset[int], sockets: Mapping[int, int | None] | None
) -> list[Pool]:
    """The pools that the NUMA policy allows, nearest first."""
    near = [pool for pool in pools if pool.numa_node in cells]
    if request.policy == "required" or free_devices(near) >= request.count:
        return near
    if request.policy == "socket":
        return _on_sockets(pools, cells, sockets or {})
    usable = [pool for pool in pools if pool.numa_node is None or pool.numa_node in cells]
    if request.policy == "legacy" or free_devices(usable) >= request.count:
        return usable
    return usable + [pool for pool in pools if pool.numa_node is not None and pool.numa_node not in cells]


def _on_sockets(pools: list[Pool], cells: frozenset[int], sockets: Mapping[int, int | None]) -> list[Pool]:
    if None in sockets.values():  # one node whose socket is not known, and nothing is certain
        return []
    wanted = {sockets[cell] for cell in cells if cell in sockets}
    nodes = {node for node, socket in sockets.items() if socket in wanted}
    return [pool for pool in pools if pool.numa_node in nodes]


def _lacking(usable: Iterable[Pool], request: PciRequest, place: _GuestPlace) -> list[str]:
    """Providers of the candidate from which the devices it counts on cannot be had."""
    providers = providers_for(request, place.mappings)
    if not providers:
        return []
    found = {pool.get("rp_uuid") for pool in usable}
    return [provider for provider in providers if provider not in found]


def _portions(usable: Sequence[Pool], request: PciRequest, place: _GuestPlace) -> list[Pool]:
    """What the request takes: per provider as the candidate says, else from the pools in order."""
    if providers := providers_for(request, place.mappings):
        first = {pool.get("rp_uuid"): pool for pool in reversed(usable)}
        return [first[provider].with_count(count) for provider, count in providers.items()]
    portions: list[Pool] = []
    missing = request.count
    for pool in usable:
        if portion := min(missing, pool.count):
            portions.append(pool.with_count(portion))
            missing -= portion
    return portions


def _without(pools: Iterable[Pool], portions: Iterable[Pool]) -> Pools:
    """The pools less the portions; a pool that this empties is gone."""
    due = _counted(portions)
    left = []
    for pool in pools:
        portion = min(pool.count, due.get(pool.properties, 0))
        if not portion:
            left.append(pool)
            continue
        due[pool.properties] -= portion
        if pool.count > portion:
            left.append(pool.with_count(pool.count - portion))
    return tuple(left)


def _counted(pools: Iterable[Pool]) -> dict[Properties, int]:
    """Devices of each kind."""
    found: dict[Properties, int] = {}
    for pool in pools:
        found[pool.properties] = found.get(pool.properties, 0) + pool.count
    return found


# --- why a request cannot be met ------------------------------------------------------------------


def _reason(pools: Sequence[Pool], left: Sequence[Pool], request: PciRequest, place: _GuestPlace) -> str:
    """`pools` are all of the host, `left` those that the instance's earlier requests did not take."""
    steps = list(_narrow(left, request, place))
    free = free_devices(pool for pool in pools if matches(pool, request))
    if place.cells and (sentence := _wrong_nodes(steps[0][1], steps[1][1], request, place.cells, place.sockets)):
        return sentence
    asked = f"{request.count} {'device' if request.count == 1 else 'devices'} {_named(request)} asked"
    if free_devices(steps[0][1]) >= request.count and (lacking := _lacking(steps[-1][1], request, place)):
        wanted = providers_for(request, place.mappings)[lacking[0]]
        has = max((pool.count for pool in steps[-2][1] if pool.get("rp_uuid") == lacking[0]), default=0)
        return f"{asked}, {wanted} of them from provider {lacking[0]}, whose pool has {has}"
    losses = _losses(free, steps)
    return f"{asked}; {free} free" + (f", less {_listed(losses)}" if losses else "")


def _losses(free: int, steps: Iterable[tuple[str, list[Pool]]]) -> list[str]:
    losses = []
    for words, left in steps:
        now = free_devices(left)
        if now < free:
            losses.append(f"{free - now} {words}")
        free = now
    return losses


def _wrong_nodes(
    before: Sequence[Pool],
    after: Sequence[Pool],
    request: PciRequest,
    cells: frozenset[int],
    sockets: Mapping[int, int | None] | None,
) -> str:
    """The sentence for devices that would do, were they not all in the wrong place; else empty."""
    if free_devices(after) or free_devices(before) < max(1, request.count):
        return ""
    needed = f"the socket of {_nodes(cells)}" if request.policy == "socket" else _nodes(cells)
    if request.policy == "socket" and (not sockets or None in sockets.values()):
        return f"the request needs {_named(request)} devices on {needed}; which socket a node is on is not known"
    return f"free {_named(request)} devices are on {_whereabouts(before)}; the request needs {needed}"


def _whereabouts(pools: Iterable[Pool]) -> str:
    seen = {pool.numa_node for pool in pools if pool.count}
    known = [node for node in seen if node is not None]
    unknown = ["no known NUMA node"] if None in seen else []
    return _listed([f"NUMA {_nodes(known)}", *unknown] if known else unknown)


def _nodes(cells: Iterable[int]) -> str:
    ordered = sorted(cells)
    return f"{'node' if len(ordered) == 1 else 'nodes'} {_listed([str(each) for each in ordered])}"


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _named(request: PciRequest) -> str:
    """The devices in the operator's words: `10de:1eb8 type-VF`."""
    names = dict.fromkeys(_kind(dict(each)) for each in request.spec)
    if not all(names):
        return request.alias_name or "*:*"
    return " or ".join(names) or "of no kind"


def _kind(wanted: dict[str, Property]) -> str:
    vendor, product = wanted.pop("vendor_id", None), wanted.pop("product_id", None)
    words = [f"{vendor or '*'}:{product or '*'}"] if vendor or product else []
    if device_type := wanted.pop("dev_type", None):
        words.append(str(device_type))
    words += [f"{key}={value}" for key, value in wanted.items() if key not in NOT_MATCHED]
    return " ".join(words)
