# SPDX-License-Identifier: Apache-2.0
"""Instances that hold a host already and ask for one: the same request once more, or a move.

An answer may get lost on its way, and its caller may ask again: that must not book a second host. Who asks for
something else - another size, or anywhere but there - moves.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence

from roost.claims import Ledger
from roost.claims.claim import Claim
from roost.hosts import HostTable
from roost.model import Decision, RequestSpec
from roost.model.consumers import Amounts
from roost.scheduler.pipeline import make_decision, make_selection
from roost.scheduler.prefilters import may_be_in_cell

_MOVES = uuid.UUID("0d5f4a5e-5f0b-5d3e-8c57-9c0c0b6f1d21")


def earlier_answer(
    spec: RequestSpec, uuids: Sequence[str], table: HostTable, held: Mapping[str, Mapping[str, Amounts]]
) -> Decision | None:
    """What was decided for these instances before, if that still answers the request.

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
    """The instance claims another host, and its move keeps what it holds until somebody says that it has left.

    One move at a time: who moves again has left where it moved from before.
    """
    ledger.finish_move(move_of(claim.consumer_uuid))
    ledger.start_move(move_of(claim.consumer_uuid), claim)


def take_back(ledger: Ledger, instance: str, has_moved: bool) -> None:
    """The instance holds again what it held before `move`; one that held nothing before, nothing."""
    if has_moved:
        ledger.undo_move(move_of(instance), instance)
    else:
        ledger.release([instance])


def leave(ledger: Ledger, instance: str, nodes: Collection[str]) -> bool:
    """An instance is gone from these nodes: nothing is held there for it any more; whether something was."""
    held = ledger.read_allocations([instance, move_of(instance)])
    had = [who for who, places in held.items() if places.keys() <= set(nodes)]
    return bool(had) and bool(ledger.release(had))


def move_of(instance: str) -> str:
    """The uuid under which a moving instance holds what it had."""
    return str(uuid.uuid5(_MOVES, instance))


def _is_answer(spec: RequestSpec, table: HostTable, row: int, amounts: Amounts) -> bool:
    """Whether what is held there is what this request would be given."""
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
