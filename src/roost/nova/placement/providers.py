# SPDX-License-Identifier: Apache-2.0
"""Resource providers of placement: a snapshot of its root providers, kept up to date with as few calls as possible.

`read_all` refreshes everything: the list of providers with their generations, inventories of those whose generation
moved, and the use of all providers with room, which one query gives. Freed room moves no generation, so the use is
replaced as a whole. A provider that the query does not list counts as full. `read_some` reads a few providers, after
a claim or a refusal. `note_claimed` adds an own claim at once. Figures carry the time at which their read began, so
that a `read_all` that began earlier and took longer does not undo them.

The query for room is `GET /allocation_candidates` for one unit of a resource class, which lists all providers that
have a unit left, with the use of all their classes. VCPU alone would miss hosts with dedicated CPUs only (PCPU) and
bare metal (CUSTOM_...), and one unit is too little where an inventory is allocated in larger steps. So there is a
query per class and unit; usually that is one.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from roost.errors import PlacementError, PlacementNotFound
from roost.hosts.record import Inventory
from roost.model.resources import VCPU
from roost.nova.keystone import CONNECTIONS
from roost.nova.placement.client import PlacementClient, quoted
from roost.store.statements import in_chunks

Amounts = Mapping[str, int]
"""Resource class -> amount."""


@dataclass(frozen=True, slots=True)
class Provider:
    """A root provider: what there is, and what was used of it when it was read.

    Two of them are equal if a scheduler would see no difference: generation and times do not count.
    """

    uuid: str
    name: str
    inventories: Mapping[str, Inventory]
    used: Amounts
    """Allocated amount per resource class, to all consumers together."""
    traits: frozenset[str] = frozenset()
    is_assumed_full: bool = False
    """Placement did not list it among those with room; `used` was set to the limits and is not what placement has."""
    generation: int = field(default=0, compare=False)
    """The generation for which inventories and traits are known to be right."""
    read_at: float = field(default=0.0, compare=False)
    """Monotonic time at which the read of `used` began."""
    changed_at: float = field(default=0.0, compare=False)
    """Monotonic time of the last own claim that was added to `used`; `read_at` if there was none since."""


class ProviderChanges(NamedTuple):
    """What changed in the snapshot: uuids of providers that are new or differ, and of those that are gone."""

    changed: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()


class Listed(NamedTuple):
    """A provider in the list of all."""

    uuid: str
    name: str
    generation: int
    root_uuid: str


class ProviderDetails(NamedTuple):
    """What changes seldom, and never without a new generation."""

    generation: int
    inventories: Mapping[str, Inventory]
    traits: frozenset[str] | None
    """None: not known for this generation."""

    def overbooked(self, used: Amounts, classes: Iterable[str]) -> str:
        """The first of these resource classes of which more is used than there is, with figures; empty if none."""
        for name in sorted(classes):
            limit = int(self.inventories[name].limit) if name in self.inventories else 0
            if used.get(name, 0) > limit:
                return f"{name}: {used[name]} of {limit} used"
        return ""


GONE = ProviderDetails(-1, {}, None)
"""Of a provider that placement does not have any more."""


class Room(NamedTuple):
    """Use and traits of a provider."""

    used: Amounts
    traits: frozenset[str] | None
    """None: not part of the answer."""


def decode_list(answer: Mapping[str, Any]) -> dict[str, Listed]:
    """All providers, uuid -> provider, of an answer of /resource_providers."""
    with decoding("/resource_providers"):
        found = (
            Listed(str(each["uuid"]), str(each["name"]), int(each["generation"]), str(each["root_provider_uuid"]))
            for each in answer["resource_providers"]
        )
        return {each.uuid: each for each in found}


def decode_candidates(answer: Mapping[str, Any]) -> dict[str, Room]:
    """All providers, uuid -> room, in an answer of /allocation_candidates."""
    with decoding("/allocation_candidates"):
        return {
            str(uuid): Room(
                {str(name): int(amounts["used"]) for name, amounts in each["resources"].items()},
                frozenset(map(str, each["traits"])),
            )
            for uuid, each in answer["provider_summaries"].items()
        }


def decode_inventories(answer: Mapping[str, Any]) -> tuple[int, dict[str, Inventory]]:
    """(generation, resource class -> inventory) of one provider."""
    with decoding("inventories"):
        return _generation(answer), {str(name): _inventory(each) for name, each in answer["inventories"].items()}


def decode_usages(answer: Mapping[str, Any]) -> tuple[int, dict[str, int]]:
    """(generation, resource class -> used amount) of one provider."""
    with decoding("usages"):
        return _generation(answer), {str(name): int(used) for name, used in answer["usages"].items()}


def decode_names(answer: Mapping[str, Any], key: str) -> tuple[int, frozenset[str]]:
    """(generation, names under `key`) of one provider: its traits."""
    with decoding(key):
        return _generation(answer), frozenset(map(str, answer[key]))


def _generation(answer: Mapping[str, Any]) -> int:
    return int(answer["resource_provider_generation"])


def _inventory(each: Mapping[str, Any]) -> Inventory:
    return Inventory(
        total=int(each["total"]),
        reserved=int(each["reserved"]),
        allocation_ratio=float(each["allocation_ratio"]),
        min_unit=int(each["min_unit"]),
        max_unit=int(each["max_unit"]),
        step_size=int(each["step_size"]),
    )


@contextmanager
def decoding(what: str) -> Iterator[None]:
    """Context in which an answer about `what` is decoded; PlacementError where it has another form."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        problem = f"placement's answer about {what} lacks something: {type(error).__name__}: {error}"
        raise PlacementError(problem) from None


PCPU = "PCPU"
_CUSTOM = "CUSTOM_"
MOST_QUERIES = 16
"""Providers that need yet another query are read one by one."""


class RoomQuery(NamedTuple):
    """A resource class, and the least amount of it that can be allocated."""

    resource_class: str
    amount: int

    @property
    def parameters(self) -> list[tuple[str, str]]:
        """The parameters of the GET."""
        return [("resources", f"{self.resource_class}:{self.amount}")]


class QueryPlan(NamedTuple):
    """The queries to make, and the uuids of providers that none of them can list."""

    queries: tuple[RoomQuery, ...]
    unlisted: frozenset[str]


def plan_queries(inventories: Mapping[str, Mapping[str, Inventory]]) -> QueryPlan:
    """The queries for these providers: uuid -> resource class -> inventory."""
    wanted = {uuid: _queries_of(own) for uuid, own in inventories.items()}
    counts = Counter(query for queries in wanted.values() for query in queries)
    chosen = {query for query, _ in sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:MOST_QUERIES]}
    # A provider is known to be full only if every query that could list it was made.
    unlisted = {uuid for uuid, queries in wanted.items() if not chosen.issuperset(queries)}
    return QueryPlan(tuple(sorted(chosen)), frozenset(unlisted))


def _queries_of(inventories: Mapping[str, Inventory]) -> list[RoomQuery]:
    """Each CPU class of a host; the first custom class of what has no CPUs; none for what is no host."""
    classes = [name for name in (VCPU, PCPU) if name in inventories]
    classes = classes or _first(sorted(name for name in inventories if name.startswith(_CUSTOM)))
    return [RoomQuery(name, _least_amount(inventories[name])) for name in classes]


def _first(names: Iterable[str]) -> list[str]:
    return list(names)[:1]


def _least_amount(inventory: Inventory) -> int:
    step = max(1, inventory.step_size)
    return max(1, -(-inventory.min_unit // step)) * step


SHARING = "MISC_SHARES_VIA_AGGREGATE"
"""Trait of a provider whose resources the other members of its aggregates may use."""
READ_ROUNDS = 3
"""How often `read_some` reads a provider at most, if own claims change it meanwhile."""


class ProviderReader:
    """Reads providers and keeps the snapshot. May be shared by threads."""

    def __init__(self, client: PlacementClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._client, self._clock = client, clock
        self._one_at_a_time = threading.Lock()
        """Held during `read_all`."""
        self._lock = threading.Lock()
        """Guards everything below; never held during a call."""
        self._providers: dict[str, Provider] = {}
        self._changed: set[str] = set()
        self._removed: set[str] = set()
        self._names: dict[str, str] = {}
        """Uuid -> name of each provider that is the root of a tree, and does not share its resources."""
        self._details: dict[str, ProviderDetails] = {}
        self.read_at: float | None = None
        """When the last complete `read_all` began; None: none is complete yet."""
        self.other_classes: frozenset[str] = frozenset()
        """Resource classes of providers that are no roots, such as GPUs, or that several hosts share."""

    @property
    def is_complete(self) -> bool:
        """Whether all providers were read since the start."""
        return self.read_at is not None

    @property
    def providers(self) -> dict[str, Provider]:
        """The snapshot, a copy: uuid -> provider."""
        with self._lock:
            return dict(self._providers)

    def take_changes(self) -> ProviderChanges:
        """What changed in the snapshot since the last call, by reads and by own claims."""
        with self._lock:
            changes = ProviderChanges(frozenset(self._changed), frozenset(self._removed))
            self._changed, self._removed = set(), set()
            return changes

    # --- everything ---

    def read_all(self) -> None:
        """Refresh the whole snapshot; one thread at a time. Inventories read before an error are not read again."""
        with self._one_at_a_time:
            began = self._clock()
            listed = decode_list(self._client.get("/resource_providers"))
            sharing = decode_list(self._client.get("/resource_providers", [("required", SHARING)]))
            self._read_moved(listed.values())
            roots = {
                uuid: each.name for uuid, each in listed.items() if each.root_uuid == uuid and uuid not in sharing
            }
            started = self._clock()
            rooms = self._read_rooms(roots)
            with self._lock:
                self._drop_unlisted(listed.keys(), roots, began)
                others = (self._details[uuid].inventories for uuid in listed.keys() - roots if uuid in self._details)
                self.other_classes = frozenset().union(*others)
                self._merge(rooms, started)
                self.read_at = began

    def _drop_unlisted(self, listed: Collection[str], roots: Mapping[str, str], began: float) -> None:
        """Forget providers that are not listed, except those that `read_some` found since the list was asked for."""
        newer = {uuid for uuid, each in self._providers.items() if each.changed_at > began and uuid not in listed}
        for uuid in self._providers.keys() - roots.keys() - newer:
            self._remove(uuid)
        for uuid in self._details.keys() - set(listed) - newer:
            del self._details[uuid]
        self._names = {uuid: self._names[uuid] for uuid in newer} | dict(roots)

    def _read_moved(self, listed: Iterable[Listed]) -> None:
        """Read inventories of providers whose generation is not the one for which they are known."""
        with self._lock:
            known = {uuid: each.generation for uuid, each in self._details.items()}
        moved = [each.uuid for each in listed if known.get(each.uuid) != each.generation]
        for some in in_chunks(moved, CONNECTIONS):  # so that calls for requests get their turn
            self._client.map(self._read_details, some)

    def _read_rooms(self, roots: Collection[str]) -> dict[str, Room | None]:
        """Root uuid -> use and traits; None where it has no room."""
        with self._lock:
            details = {uuid: self._details[uuid] for uuid in roots if uuid in self._details}
        plan = plan_queries({uuid: each.inventories for uuid, each in details.items()})
        rooms: dict[str, Room | None] = dict.fromkeys(details)
        for found in self._client.map(self._ask_for_room, plan.queries):
            rooms.update((uuid, room) for uuid, room in found.items() if uuid in details)
        unlisted = [uuid for uuid in plan.unlisted if rooms[uuid] is None]
        rooms.update(zip(unlisted, self._client.map(self._read_use, unlisted), strict=True))
        answered = {uuid for uuid, room in rooms.items() if room is not None and room.traits is not None}
        unknown = [uuid for uuid, each in details.items() if each.traits is None and uuid not in answered]
        self._client.map(self._read_traits, unknown)
        return rooms

    def _ask_for_room(self, query: RoomQuery) -> dict[str, Room]:
        return decode_candidates(self._client.get("/allocation_candidates", query.parameters))

    def _merge(self, rooms: Mapping[str, Room | None], started: float) -> None:
        """Put use and traits from a read that began at `started` into the snapshot, unless it has newer."""
        for uuid, room in rooms.items():
            old, details = self._providers.get(uuid), self._details.get(uuid)
            if details is not None and room is not None and room.traits is not None:
                details = self._details[uuid] = details._replace(traits=room.traits)
            if old is not None and old.changed_at > started:
                self._put(uuid, old.used, old.read_at, old.changed_at, old.is_assumed_full)
            elif details is not None:
                full = {name: int(each.limit) for name, each in details.inventories.items()}
                self._put(uuid, room.used if room else full, started, started, room is None)

    # --- a few ---

    def read_some(self, uuids: Iterable[str]) -> None:
        """Read use, inventories and traits of some providers now, and put them into the snapshot."""
        waiting = set(uuids)
        for _ in range(READ_ROUNDS):
            fresh = [each for each in self._client.map(self._read_one, sorted(waiting)) if each]
            with self._lock:
                waiting = {each.uuid for each in fresh if self._is_newer(each)}
            if not waiting:
                break

    def _is_newer(self, fresh: Provider) -> bool:
        """Whether the snapshot has an own claim that came after this read began."""
        return (known := self._providers.get(fresh.uuid)) is not None and known.changed_at > fresh.read_at

    def _read_one(self, uuid: str) -> Provider | None:
        """A root as placement has it now, also in the snapshot unless that has a later own claim; None if gone."""
        started = self._clock()
        try:
            generation, used = decode_usages(self._client.get(f"{_path(uuid)}/usages"))
            with self._lock:
                name, details = self._names.get(uuid), self._details.get(uuid)
            if name is None:
                self._read_name(uuid)
            if details is None or details.generation != generation or details.traits is None:
                self._read_details(uuid)
                self._read_traits(uuid)
        except PlacementNotFound:
            self._forget(uuid)
            return None
        with self._lock:
            fresh = self._compose(uuid, used, started, started)
            if fresh is not None and not self._is_newer(fresh):
                self._put(uuid, used, started, started)
            return fresh

    def _read_name(self, uuid: str) -> None:
        """Find out the name of a provider that is not known yet, if it is a root."""
        own = decode_list(self._client.get("/resource_providers", [("uuid", uuid)])).get(uuid)
        if own is not None and own.root_uuid == uuid:
            with self._lock:
                self._names[uuid] = own.name

    def _read_details(self, uuid: str) -> None:
        """Read inventories; a provider that is gone is forgotten."""
        try:
            generation, inventories = decode_inventories(self._client.get(f"{_path(uuid)}/inventories"))
        except PlacementNotFound:
            self._forget(uuid)
            return
        with self._lock:
            self._details[uuid] = ProviderDetails(generation, inventories, None)

    def _read_traits(self, uuid: str) -> None:
        """Read the traits, of a provider of which inventories are known."""
        try:
            generation, traits = decode_names(self._client.get(f"{_path(uuid)}/traits"), "traits")
        except PlacementNotFound:
            self._forget(uuid)
            return
        with self._lock:
            if details := self._details.get(uuid):
                self._details[uuid] = details._replace(generation=min(details.generation, generation), traits=traits)

    def _read_use(self, uuid: str) -> Room | None:
        try:
            return Room(decode_usages(self._client.get(f"{_path(uuid)}/usages"))[1], None)
        except PlacementNotFound:
            return None

    def _forget(self, uuid: str) -> None:
        with self._lock:
            self._details.pop(uuid, None)
            self._names.pop(uuid, None)
            self._remove(uuid)

    # --- own claims ---

    def find_overbooked(self, claimed: Mapping[str, Amounts]) -> str:
        """The first provider that has more used of a claimed class than it has, with figures; empty if there is none.

        `claimed`: uuid -> claimed amounts, of roots and others. Their use is read now, and put into the snapshot.
        """
        found = self._client.map(lambda uuid: self._find_overbooked_class(uuid, claimed[uuid]), sorted(claimed))
        return next(
            (f"provider {uuid}: {each}" for uuid, each in zip(sorted(claimed), found, strict=True) if each), ""
        )

    def _find_overbooked_class(self, uuid: str, classes: Collection[str]) -> str:
        started = self._clock()
        generation, used = decode_usages(self._client.get(f"{_path(uuid)}/usages"))
        with self._lock:
            details = self._details.get(uuid)
        if details is None or details.generation != generation:  # another writer may have changed the inventory
            self._read_details(uuid)
        with self._lock:
            problem = self._details.get(uuid, GONE).overbooked(used, classes)
            known = self._providers.get(uuid)
            if known is not None and known.changed_at <= started:
                self._put(uuid, used, started, started)
        return problem

    def note_claimed(self, claimed: Mapping[str, Amounts]) -> None:
        """Add an own claim, provider uuid -> amounts. Each provider's generation is expected to have risen by one."""
        with self._lock:
            for uuid, amounts in claimed.items():
                if details := self._details.get(uuid):
                    # If another writer was there too, the next read sees another generation than this one.
                    self._details[uuid] = details._replace(generation=details.generation + 1)
                self._add(uuid, amounts, 1)

    def note_released(self, released: Mapping[str, Amounts]) -> None:
        """Subtract an own claim that was taken back, provider uuid -> amounts."""
        with self._lock:
            for uuid, amounts in released.items():
                self._add(uuid, amounts, -1)

    def _add(self, uuid: str, amounts: Amounts, sign: int) -> None:
        known = self._providers.get(uuid)
        if known is None or known.is_assumed_full:
            return
        used = dict(known.used) | {name: known.used.get(name, 0) + sign * each for name, each in amounts.items()}
        self._put(uuid, used, known.read_at, self._clock())

    # --- the snapshot; called with the lock held ---

    def _compose(
        self, uuid: str, used: Amounts, read_at: float, changed_at: float, is_assumed_full: bool = False
    ) -> Provider | None:
        name, details = self._names.get(uuid), self._details.get(uuid)
        if name is None or details is None:
            return None
        return Provider(
            uuid=uuid,
            name=name,
            inventories=details.inventories,
            used=used,
            traits=self._traits_of(uuid, details),
            is_assumed_full=is_assumed_full,
            generation=details.generation,
            read_at=read_at,
            changed_at=changed_at,
        )

    def _traits_of(self, uuid: str, details: ProviderDetails) -> frozenset[str]:
        """The traits; those of before while they are not known for the latest generation."""
        if details.traits is not None:
            return details.traits
        known = self._providers.get(uuid)
        return known.traits if known else frozenset()

    def _put(
        self, uuid: str, used: Amounts, read_at: float, changed_at: float, is_assumed_full: bool = False
    ) -> None:
        provider = self._compose(uuid, used, read_at, changed_at, is_assumed_full)
        if provider is None:
            return
        if provider != self._providers.get(uuid):
            self._changed.add(uuid)
            self._removed.discard(uuid)
        self._providers[uuid] = provider

    def _remove(self, uuid: str) -> None:
        if self._providers.pop(uuid, None) is not None:
            self._changed.discard(uuid)
            self._removed.add(uuid)


def _path(uuid: str) -> str:
    return f"/resource_providers/{quoted(uuid)}"
