# SPDX-License-Identifier: Apache-2.0
"""Claims: all instances of a request get their allocations in one POST, all or nothing.

A claim survives three kinds of trouble:

- *A lost answer.* After a timeout or a broken connection the POST may have been executed. What the consumers hold is
  read before the POST is repeated. A repeated POST cannot claim twice: it names the consumers' generations.
- *A consumer that holds something already*, as in an evacuation, which the first POST finds out: it gets old and new
  together, as with nova, until the old host's share is taken off.
- *Placement grants one room twice* where two claims arrive at the same moment. Within a process that cannot happen:
  it never has two claims for the same provider in flight (`ProviderLocks`). Because of other writers, the use of each
  provider is read after the claim; a claim that overbooked one is taken back, and refused like any other, unless
  enough others were taken back first. Of several claims that overbook a provider, the last one committed always sees
  it, so in the end none is overbooked.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from roost.errors import PlacementConflict, PlacementError, PlacementNotFound, PlacementUnavailable
from roost.nova.placement.client import CAPACITY, CONSUMER, PlacementClient, quoted
from roost.nova.placement.providers import Amounts, ProviderReader

Allocations = Mapping[str, Amounts]
"""Provider uuid -> resource class -> amount."""


@dataclass(frozen=True)
class AllocationRequest:
    """The resources that one instance asks for, on the providers that were chosen."""

    consumer_uuid: str
    allocations: Allocations
    mappings: Mapping[str, Sequence[str]]
    """Suffix of a request group -> uuids of the providers that satisfy it."""
    project_id: str
    user_id: str


class Held(NamedTuple):
    """What a consumer holds; `generation` is None for one that placement does not know."""

    allocations: Allocations = {}
    generation: int | None = None
    project_id: str = ""
    user_id: str = ""


NOTHING = Held()


@dataclass(frozen=True)
class Grant:
    """Requests that placement granted, all of them, and what the consumers held before."""

    requests: tuple[AllocationRequest, ...]
    before: Mapping[str, Held] = field(default_factory=dict)
    """Consumer uuid -> what it held before; missing: nothing."""
    kept: frozenset[str] = frozenset()
    """Consumers that held exactly what was asked for before; nothing was written for them."""

    def added(self, request: AllocationRequest) -> Allocations:
        """What a request added to what its consumer held."""
        return {} if request.consumer_uuid in self.kept else new_allocations(request, self.held_before(request))

    @property
    def written(self) -> tuple[AllocationRequest, ...]:
        """The requests for which allocations are written: all but those of kept consumers."""
        return tuple(each for each in self.requests if each.consumer_uuid not in self.kept)

    def held_before(self, request: AllocationRequest) -> Held:
        """What the request's consumer held before."""
        return self.before.get(request.consumer_uuid, NOTHING)

    @property
    def providers(self) -> frozenset[str]:
        """All providers that are written, by uuid: those that were chosen, and those that are held besides."""
        return frozenset(uuid for each in self.written for uuid in wanted_allocations(each, self.held_before(each)))

    @property
    def added_by_provider(self) -> dict[str, dict[str, int]]:
        """Provider uuid -> resource class -> amount that all requests together added."""
        return sum_by_provider(map(self.added, self.requests))


def sum_by_provider(allocations: Iterable[Allocations]) -> dict[str, dict[str, int]]:
    """Provider uuid -> resource class -> amount, summed over several allocations."""
    total: dict[str, dict[str, int]] = {}
    for each in allocations:
        for provider, amounts in each.items():
            own = total.setdefault(provider, {})
            for name, amount in amounts.items():
                own[name] = own.get(name, 0) + amount
    return total


def new_allocations(request: AllocationRequest, held: Held) -> Allocations:
    """The allocations of a request on providers of which the consumer holds nothing yet."""
    return {uuid: amounts for uuid, amounts in request.allocations.items() if uuid not in held.allocations}


def wanted_allocations(request: AllocationRequest, held: Held) -> Allocations:
    """All that the consumer is to hold: what it has, and the request's on other providers, as nova does it."""
    return {**held.allocations, **new_allocations(request, held)}


def claim_body(request: AllocationRequest, held: Held) -> dict[str, Any]:
    """The body that claims a request. Old and new together have no mappings, as in nova."""
    body = _body(wanted_allocations(request, held), held.generation, request.project_id, request.user_id)
    return (
        body if held.allocations else body | {"mappings": {key: list(each) for key, each in request.mappings.items()}}
    )


def held_body(held: Held, allocations: Allocations) -> dict[str, Any]:
    """The body that leaves a consumer only these of the allocations that it holds."""
    return _body(allocations, held.generation, held.project_id, held.user_id)


def _body(allocations: Allocations, generation: int | None, project_id: str, user_id: str) -> dict[str, Any]:
    return {
        "allocations": {uuid: {"resources": dict(amounts)} for uuid, amounts in allocations.items()},
        "project_id": project_id,
        "user_id": user_id,
        "consumer_generation": generation,
    }


def release_held(client: PlacementClient, consumer_uuid: str, held: Held) -> None:
    """Release all that a consumer holds; PlacementConflict if it holds something else by now."""
    client.put(f"/allocations/{quoted(consumer_uuid)}", held_body(held, {}))


def read_held(client: PlacementClient, consumer_uuid: str) -> Held:
    """What a consumer holds now."""
    answer = client.get(f"/allocations/{quoted(consumer_uuid)}")
    try:
        allocations = {
            str(uuid): {str(name): int(amount) for name, amount in each["resources"].items()}
            for uuid, each in answer["allocations"].items()
        }
        if not allocations:
            return NOTHING
        generation = int(answer["consumer_generation"])
        return Held(allocations, generation, str(answer["project_id"]), str(answer["user_id"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        problem = f"{type(error).__name__}: {error}"
        raise PlacementError(
            f"placement's answer about consumer {consumer_uuid} lacks something: {problem}"
        ) from None


class ProviderLocks:
    """A lock per provider, which exists only while a thread holds it or waits for it."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._users: Counter[str] = Counter()

    @contextmanager
    def hold(self, uuids: Iterable[str]) -> Iterator[None]:
        """Hold the locks of all these providers, taken in one order, so that threads cannot deadlock."""
        with ExitStack() as held:
            for uuid in sorted(set(uuids)):
                held.enter_context(self._hold_one(uuid))
            yield

    @contextmanager
    def _hold_one(self, uuid: str) -> Iterator[None]:
        with self._guard:
            lock = self._locks.setdefault(uuid, threading.Lock())
            self._users[uuid] += 1
        try:
            with lock:
                yield
        finally:
            with self._guard:
                self._users[uuid] -= 1
                if not self._users[uuid]:
                    del self._users[uuid], self._locks[uuid]


LOG = logging.getLogger(__name__)

TRIES = 4
"""How often a write is tried at most, if providers or consumers change meanwhile."""
TRIES_WITHOUT_ANSWER = 2
"""How often a claim is tried at most, if there is no answer: each may take as long as the timeout."""
LONGEST_PAUSE_SECONDS = 0.1
"""Before the second try; before the third it is twice as long, and so on. The pause is drawn at random."""
LONGEST_STANDOFF_SECONDS = 0.2
"""Before a claim that overbooked a provider is looked at again: longer than it takes another one to be taken back."""


class AllocationWriter:
    """Claims and releases allocations for one scheduler process. May be shared by threads."""

    def __init__(
        self,
        client: PlacementClient,
        reader: ProviderReader,
        *,
        checks_claims: bool = True,
        randomness: random.Random | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`checks_claims`: read the use of the claimed providers after each claim.

        False is safe only where placement runs with `[placement] allocation_conflict_retry_count = 1`.
        """
        self._client, self._reader, self.checks_claims = client, reader, checks_claims
        self._random = randomness or random.Random()  # noqa: S311 - spreads retries; nothing secret
        self._sleep = sleep
        self._locks = ProviderLocks()

    def claim(self, requests: Sequence[AllocationRequest]) -> Grant:
        """Claim all requests or none.

        PlacementConflict: refused; `kind` is `capacity` also where the claim was granted, overbooked a provider, and
        was taken back. PlacementUnavailable: placement is away; whether it was claimed may not be known.
        """
        grant = self._write(Grant(tuple(requests)))
        added = grant.added_by_provider
        self._reader.note_claimed({uuid: added.get(uuid, {}) for uuid in grant.providers})
        if self.checks_claims:
            self._check(grant)
        return grant

    def reread(self, providers: Collection[str]) -> None:
        """Read these providers again, which refused a claim, into the snapshot."""
        self._reader.read_some(providers)

    def held_by(self, consumers: Collection[str]) -> dict[str, Held]:
        """Consumer uuid -> what it holds in placement now; those that hold nothing are missing."""
        found = zip(consumers, self._client.map(partial(read_held, self._client), consumers), strict=True)
        return {uuid: held for uuid, held in found if held.allocations}

    def release(self, grant: Grant) -> None:
        """Take a claim back: each consumer holds what it held before. Idempotent.

        PlacementUnavailable where placement stays away; some may have been released.
        """
        self._client.map(partial(self._release_one, grant), grant.written)
        self._reader.note_released(grant.added_by_provider)

    # --- claim ---

    def _write(self, grant: Grant) -> Grant:
        """POST the claim until it is granted, or refused for good. The grant that comes back says what was held."""
        without_answer = 0
        for attempt in range(1, TRIES + 1):
            try:
                return self._post(grant)
            except PlacementConflict as error:
                error.providers = tuple(sorted(grant.providers))
                problem: PlacementConflict | PlacementUnavailable = error
                is_final, must_look = error.kind == CAPACITY or attempt == TRIES, error.kind == CONSUMER
                if is_final and not without_answer:
                    raise
            except PlacementUnavailable as error:
                if not error.may_be_executed and not without_answer:
                    raise
                without_answer += 1
                problem, is_final, must_look = error, without_answer == TRIES_WITHOUT_ANSWER, True
            if must_look or without_answer:
                held = self._look(grant, is_in_doubt=bool(without_answer))
                if without_answer and _is_done(grant, held):
                    return grant
                grant = _with_held(grant, held)
            if is_final:
                problem.may_be_executed = bool(without_answer)
                raise problem
            self._pause(attempt)
        raise AssertionError("the last try is final")

    def _look(self, grant: Grant, is_in_doubt: bool) -> dict[str, Held]:
        """What the consumers hold now. `is_in_doubt`: an earlier POST may have been executed."""
        consumers = [each.consumer_uuid for each in grant.written]
        try:
            return self.held_by(consumers)
        except PlacementUnavailable:
            if is_in_doubt:
                LOG.warning("no answer from placement: it may have claimed for consumers %s", ", ".join(consumers))
            raise

    def _post(self, grant: Grant) -> Grant:
        bodies = {each.consumer_uuid: claim_body(each, grant.held_before(each)) for each in grant.written}
        if bodies:
            with self._locks.hold(grant.providers):
                self._client.post("/allocations", bodies)
        return grant

    def _pause(self, attempt: int) -> None:
        self._sleep(self._random.uniform(0, attempt * LONGEST_PAUSE_SECONDS))

    # --- check ---

    def _check(self, grant: Grant) -> None:
        """Take the claim back, and raise PlacementConflict, where a provider has more used than it has.

        Other schedulers see the same. A random pause before the second look lets one of them after the other take its
        claim back, until the rest fits; otherwise all would, and the room would stay empty.
        """
        try:
            if not self._find_overbooked(grant):
                return
            self._sleep(self._random.uniform(0, LONGEST_STANDOFF_SECONDS))
            over = self._find_overbooked(grant)
        except PlacementUnavailable:
            self._take_back(grant, "could not be checked")
            raise
        if over:
            self._take_back(grant, "overbooked a provider")
            message = f"{over}: placement granted claims at the same moment; this one was taken back"
            raise PlacementConflict(CAPACITY, message, sorted(grant.providers))

    def _find_overbooked(self, grant: Grant) -> str:
        """The first provider that has more used of a claimed resource class than it has; empty if there is none."""
        added = grant.added_by_provider
        for attempt in range(1, TRIES):
            try:
                return self._reader.find_overbooked(added)
            except PlacementUnavailable:
                self._pause(attempt)
        return self._reader.find_overbooked(added)

    def _take_back(self, grant: Grant, why: str) -> None:
        try:
            self.release(grant)
        except (PlacementUnavailable, PlacementConflict) as error:
            consumers = ", ".join(each.consumer_uuid for each in grant.written)
            LOG.error("a claim that %s could not be taken back, for consumers %s: %s", why, consumers, error)
            error.may_be_executed = True
            raise

    # --- release ---

    def _release_one(self, grant: Grant, request: AllocationRequest) -> None:
        for attempt in range(1, TRIES + 1):
            try:
                if grant.held_before(request).allocations:
                    return self._take_off(request.consumer_uuid, grant.added(request).keys())
                with suppress(PlacementNotFound):
                    self._client.delete(f"/allocations/{quoted(request.consumer_uuid)}")
                return None
            except (PlacementConflict, PlacementUnavailable):
                if attempt == TRIES:
                    raise
            self._pause(attempt)
        return None

    def _take_off(self, consumer_uuid: str, providers: Collection[str]) -> None:
        """Take a consumer's allocations on these providers off, and leave the others."""
        held = read_held(self._client, consumer_uuid)
        rest = {uuid: amounts for uuid, amounts in held.allocations.items() if uuid not in providers}
        if rest != held.allocations:
            with self._locks.hold(rest):
                self._client.put(f"/allocations/{quoted(consumer_uuid)}", held_body(held, rest))


def _is_done(grant: Grant, held: dict[str, Held]) -> bool:
    """Whether all consumers hold what they held before and what was asked for: an earlier POST was executed."""
    return all(
        each.consumer_uuid in held
        and held[each.consumer_uuid].allocations == wanted_allocations(each, grant.held_before(each))
        for each in grant.written
    )


def _with_held(grant: Grant, held: dict[str, Held]) -> Grant:
    """The grant for consumers that hold this now. Those that hold all that is asked for need no claim."""
    kept = {
        each.consumer_uuid
        for each in grant.written
        if each.consumer_uuid in held
        and held[each.consumer_uuid].allocations == wanted_allocations(each, held[each.consumer_uuid])
    }
    return replace(grant, before=held, kept=grant.kept | kept)
