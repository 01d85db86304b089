# SPDX-License-Identifier: Apache-2.0
"""What instances hold in the ledger while hosts are tried for them. Agents of older releases know of no ledger, so
whoever chose a host for an instance that cannot use it takes the choice back here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

import structlog

from roost.claims import Ledger
from roost.claims.claim import Claim
from roost.errors import RoostError
from roost.scheduler.claiming import Replica
from roost.scheduler.repeats_and_moves import move, move_of

LOG = structlog.get_logger(__name__)

Pair = tuple[str, str]


class ClaimRestore:
    """What some instances held before hosts were chosen for them, so that the choice can be taken back."""

    def __init__(self, ledger: Ledger, uuids: Collection[str]) -> None:
        self._ledger = ledger
        self._nodes = {uuid: set(nodes) for uuid, nodes in ledger.read_allocations(list(uuids)).items()}

    def claim(self, claim: Claim) -> None:
        """Take this too, and keep what is held until somebody says that the instance has left."""
        if claim.consumer_uuid in self._nodes:
            move(self._ledger, claim)
        else:
            self._ledger.claim([claim])

    def restore(self, uuids: Collection[str]) -> None:
        """These hold again what they held then; who did not move keeps it."""
        if fresh := [uuid for uuid in uuids if uuid not in self._nodes]:
            self._ledger.release(fresh)
        for uuid in (uuid for uuid in uuids if uuid in self._nodes):
            self._ledger.undo_move(move_of(uuid), uuid)


@contextmanager
def restored_on_failure(ledger: Ledger, uuids: Collection[str]) -> Iterator[ClaimRestore]:
    """Where the block fails, those who are still among `uuids` then hold what they held before it."""
    held = ClaimRestore(ledger, uuids)
    try:
        yield held
    except Exception:
        try:
            held.restore(list(uuids))
        except RoostError as error:  # what the block failed with is the news
            LOG.error("claims of instances that failed are still there", instances=list(uuids), error=str(error))
        raise


def leave_tried_hosts(
    ledger: Ledger, replica: Replica, uuid: str, tried: Collection[Pair], home: Pair | None = None
) -> None:
    """An instance that holds a host where it was tried, and failed, holds it no more.

    `home`: where it runs meanwhile, for one that is to move; it holds that again.
    """
    if not tried:
        return
    held = ledger.read_allocations([uuid]).get(uuid, {})
    with replica.lock:
        table = replica.table
        pairs = [table.names[row] for row, node in table.uuids.items() if node in held]
        row = table.find_row(home) if home else None
        home_uuid = table.uuids.get(row) if row is not None else None
    if not any(_is_tried(pair, tried) and pair != home for pair in pairs):
        return
    if home is None:
        ledger.release([uuid])
    elif home_uuid:
        ledger.undo_move(move_of(uuid), uuid)


def _is_tried(pair: Pair, tried: Collection[Pair]) -> bool:
    host, _ = pair
    return pair in tried or (host, "") in tried
