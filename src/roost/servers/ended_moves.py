# SPDX-License-Identifier: Apache-2.0
"""The end of a move in the ledger, by the record of its server. Agents end moves; conductors find ended ones."""

from __future__ import annotations

import structlog

from roost.errors import ClaimRejected
from roost.ledger.ledger import Ledger
from roost.ledger.unlocked_read import HeldNode
from roost.model.resources import move_of
from roost.servers.server import Server

LOG = structlog.get_logger(__name__)


def end_move(ledger: Ledger, server: Server) -> None:
    """Finish or undo the move of an idle server in the ledger: it keeps what it holds on the host where it is.

    Nothing happens if no move is under way, or if neither end of it is on that host.
    Repeated after a crash, it ends as it would have.
    """
    move = move_of(server.uuid)
    holdings = ledger.read_holdings([server.uuid, move])
    sources = [held for held in holdings.get(move, {}).values() if held.host == server.host]
    targets = [held for held in holdings.get(server.uuid, {}).values() if held.host == server.host]
    if move not in holdings:
        return
    if not (sources or targets):
        reason = f"nothing is held on {server.host}, where the server is"
        LOG.warning("move not ended in the ledger", server=server.uuid, reason=reason)
        return
    is_on_target = bool(targets)
    if targets and sources:  # a resize on one host: the size tells which of the two is left
        is_on_target = not any(_has_size_of(held, server) for held in sources) or _has_size_of(targets[0], server)
    try:
        left = list(holdings[move])  # only this move: the next may begin meanwhile
        ledger.finish_move(move, left) if is_on_target else ledger.undo_move(move, server.uuid, None, left)
    except ClaimRejected as error:  # it would split an affinity group
        LOG.warning("move not ended in the ledger", server=server.uuid, reason=str(error))


def _has_size_of(held: HeldNode, server: Server) -> bool:
    """Whether just the amounts are held that the server needs by its present flavor."""
    wanted = {name: amount for name, amount in server.spec.amounts.items() if amount}
    return wanted == {name: amount for name, amount in held.amounts.items() if amount}
