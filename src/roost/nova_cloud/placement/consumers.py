# SPDX-License-Identifier: Apache-2.0
"""What a consumer holds in placement, what is asked for it, and the bodies of requests that change it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from roost.errors import PlacementError
from roost.nova_cloud.placement.client import PlacementClient, quoted
from roost.nova_cloud.placement.providers import Amounts

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
