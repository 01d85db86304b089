# SPDX-License-Identifier: Apache-2.0
"""Requests for instances that hold a host already: a repeated request, or a move.

A reply may be lost and its request repeated: select_destinations is idempotent, so that this claims no second host. A
request for something else - another size, or another host - moves the instance.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence

from roost.claims import Ledger
from roost.claims.claim import Claim
from roost.hosts import HostTable
from roost.model import Decision, RequestSpec
from roost.scheduler.pipeline import make_decision, make_selection
from roost.scheduler.prefilters import may_be_in_cell

_MOVES = uuid.UUID("0d5f4a5e-5f0b-5d3e-8c57-9c0c0b6f1d21")
Amounts = Mapping[str, int]


def earlier_answer(
    spec: RequestSpec, uuids: Sequence[str], table: HostTable, held: Mapping[str, Mapping[str, Amounts]]
) -> Decision | None:
    """The decision for these instances before, if it still answers the request; None where it does not.

    `held`: instance -> node uuid -> amount per resource class.
    """
    rows = {node: row for row, node in table.uuids.items()}
    selections = []
    for instance in uuids:
        nodes = held.get(instance, {})
        row = rows.get(next(iter(nodes), ""))
        if len(nodes) != 1 or row is None or not _is_answer(spec, table, row, *nodes.values()):
            return None
        selections.append(make_selection(table, row, instance))
    return make_decision(len(table.names), len(uuids), (), tuple(selections), {})


def move(ledger: Ledger, claim: Claim) -> None:
    """Claim another host for an instance; its move holds the host before until the instance has left it.

    One move at a time: a second move means that the instance has left the source of the first.
    """
    ledger.finish_move(move_of(claim.consumer_uuid))
    ledger.start_move(move_of(claim.consumer_uuid), claim)


def take_back(ledger: Ledger, instance: str, has_moved: bool) -> None:
    """Undo `move`, or the first claim of an instance that has not moved."""
    if has_moved:
        ledger.undo_move(move_of(instance), instance)
    else:
        ledger.release([instance])


def release_on(ledger: Ledger, instance: str, nodes: Collection[str]) -> bool:
    """Release what an instance, and its move, hold on these nodes; True if they held something."""
    held = ledger.holdings([instance, move_of(instance)])
    there = [consumer for consumer, places in held.items() if places.keys() <= set(nodes)]
    return bool(there) and bool(ledger.release(there))


def move_of(instance: str) -> str:
    """The consumer uuid under which a moving instance holds its source."""
    return str(uuid.uuid5(_MOVES, instance))


def _is_answer(spec: RequestSpec, table: HostTable, row: int, amounts: Amounts) -> bool:
    """Whether these amounts on this row are an answer to the request."""
    host, node = table.names[row]
    asked = {name: amount for name, amount in spec.amounts.items() if amount}
    if amounts != asked and not table.numbers["is_bare_metal"][row]:
        return False
    wanted = spec.requested_destination
    return (
        host not in (spec.ignore_hosts or ())
        and host in (spec.force_hosts or (host,))
        and node in (spec.force_nodes or (node,))
        and (wanted is None or ((wanted.host or host) == host and (wanted.node or node) == node))
        and may_be_in_cell(wanted, table)(table.encoded["cell"].at(row))
        and (host, node) not in (spec.retry.hosts if spec.retry else ())
    )
