# SPDX-License-Identifier: Apache-2.0
"""Requests for instances that hold a host already: a repeated request, or a move.

A reply may be lost and its request repeated: select_destinations is idempotent, so that this claims no second host. A
request for something else - another size, another host, or the same while its host is down - moves the instance.
Decided here, from what the instance and its migration were seen to hold; the ledger carries it out if they still do.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from roost.hosts import HostTable
from roost.hosts.guests import answers, are_alike
from roost.hosts.record import Pair
from roost.ledger.claim import Claim
from roost.ledger.operations import Holding, Move, RestartMove, RetargetMove, StartMove
from roost.ledger.unlocked_read import HeldNode
from roost.model import Decision, RequestSpec
from roost.model.decision import build_unchecked
from roost.model.resources import move_of
from roost.scheduler.granter import Granter
from roost.scheduler.pipeline import make_decision, make_selection
from roost.scheduler.prefilters import may_be_in_cell

NOTHING_CHOSEN = make_decision(0, 0, (), (), {})
"""The decision for a request all of whose instances keep their hosts."""

Holdings = Mapping[str, Mapping[str, HeldNode]]
"""Instance or migration -> node uuid -> what it holds there."""


def read_held(granter: Granter, instances: Sequence[str]) -> Holdings:
    """What these instances and their migrations hold, as of one moment; empty if they hold nothing."""
    return granter.read_holdings([*instances, *map(move_of, instances)])


# --- repeats -----------------------------------------------------------------------------------------


def find_kept_rows(spec: RequestSpec, instances: Sequence[str], table: HostTable, held: Holdings) -> dict[str, int]:
    """Instance -> row that it holds and that still answers the request; the others have to be placed."""
    found = {}
    for instance in instances:
        nodes = held.get(instance, {})
        if len(nodes) == 1:
            ((node_uuid, place),) = nodes.items()
            row = table.find_row((place.host, place.node))
            if row is not None and table.uuids.get(row) == node_uuid and _is_answer(spec, table, row, place):
                found[instance] = row
    return found


def _is_answer(spec: RequestSpec, table: HostTable, row: int, place: HeldNode) -> bool:
    """Whether what is held on this row answers the request: its size, on a host that it allows and that is up."""
    host, node, amounts, guest = place
    asked = {name: amount for name, amount in spec.amounts.items() if amount}
    is_same_guest = answers(guest, spec, table.encoded["numa"].at(row))
    if not (amounts == asked and is_same_guest) and not table.numbers["is_bare_metal"][row]:
        return False
    wanted = spec.requested_destination
    return (
        bool(table.numbers["is_up"][row])
        and not _are_named(spec.ignore_hosts, [host])
        and (not spec.force_hosts or _are_named(spec.force_hosts, [host]))
        and node in (spec.force_nodes or (node,))
        and (wanted is None or ((wanted.host or host) == host and (wanted.node or node) == node))
        and may_be_in_cell(wanted, table)(table.encoded["cell"].at(row))
        and (host, node) not in (spec.retry.hosts if spec.retry else ())
    )


def with_kept_hosts(
    decision: Decision, instances: Sequence[str], kept: Mapping[str, int], table: HostTable
) -> Decision:
    """The decision for the other instances, with the hosts that these keep."""
    chosen = iter(decision.selections)
    selections = [make_selection(table, kept[each], each) if each in kept else next(chosen) for each in instances]
    sizes = {"hosts": len(table.names), "wanted": len(instances), "selections": tuple(selections)}
    return build_unchecked(Decision, {**vars(decision), **sizes})


# --- moves -------------------------------------------------------------------------------------------


class ClaimPlan(NamedTuple):
    """How chosen hosts are claimed."""

    claims: list[Claim]
    """Of instances that hold nothing, or exactly this."""
    moves: list[Move]
    """Of instances that hold something else."""


def plan_claims(
    claims: Sequence[Claim], held: Holdings, ignored: Collection[str] | None, failed: Collection[Pair] = ()
) -> ClaimPlan:
    """How these claims are made for instances that may hold something else.

    `ignored`: hosts that the request says to ignore; `failed`: nodes on which the instances could not be built.
    """
    plan = ClaimPlan([], [])
    for claim in claims:
        places, sources = (held.get(each, {}) for each in (claim.consumer_uuid, move_of(claim.consumer_uuid)))
        seen = Holding(_amounts(places), _amounts(sources))
        if not places or _is_held(claim, places):
            plan.claims.append(claim)
        else:
            kind = _kind_of_move(places, sources, ignored, failed)
            plan.moves.append(kind(move_of(claim.consumer_uuid), claim, seen))
    return plan


def _kind_of_move(
    places: Mapping[str, HeldNode],
    sources: Mapping[str, HeldNode],
    ignored: Collection[str] | None,
    failed: Collection[Pair],
) -> type[Move]:
    """What is released, by where the instance runs: a request to move it ignores its host, and others that failed."""
    if all((place.host, place.node) in failed for place in places.values()):
        return RetargetMove
    if _are_named(ignored, [place.host for place in sources.values()]):
        return RetargetMove  # it is on a source still
    if sources and _are_named(ignored, [place.host for place in places.values()]):
        return RestartMove  # it has arrived at the target, and so has left the sources
    return StartMove


def _is_held(claim: Claim, places: Mapping[str, HeldNode]) -> bool:
    """Whether the places are exactly what is claimed, whichever CPUs and devices it got there."""
    place = places.get(claim.node_uuid)
    if place is None or len(places) > 1:
        return False
    amounts = {name: amount for name, amount in claim.amounts.items() if amount}
    return place.amounts == amounts and are_alike(place.guest, claim.guest)


def _amounts(places: Mapping[str, HeldNode]) -> dict[str, dict[str, int]]:
    return {node_uuid: place.amounts for node_uuid, place in places.items()}


def _are_named(names: Collection[str] | None, hosts: Collection[str]) -> bool:
    """Whether one of the hosts is named, in upper or lower case."""
    lower = {name.lower() for name in names or ()}
    return any(host.lower() in lower for host in hosts)
