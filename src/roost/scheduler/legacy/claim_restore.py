# SPDX-License-Identifier: Apache-2.0
"""Restores claims after a failure. Agents of Icehouse and Juno know of no ledger, so the scheduler releases what it
claimed on a host that an instance cannot use.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

import structlog

from roost.claims import Ledger
from roost.claims.claim import Claim
from roost.errors import RoostError
from roost.hosts.record import Pair
from roost.scheduler.claiming import Replica
from roost.scheduler.repeats_and_moves import move, move_of

LOG = structlog.get_logger(__name__)


class ClaimRestore:
    """The allocations of some instances before hosts were chosen for them, so that the choice can be undone."""

    def __init__(self, ledger: Ledger, uuids: Collection[str]) -> None:
        self._ledger = ledger
        self._nodes = {uuid: set(nodes) for uuid, nodes in ledger.read_allocations(list(uuids)).items()}

    def claim(self, claim: Claim) -> None:
        """Claim another host; a host that the instance holds is kept as the source of a move."""
        if claim.consumer_uuid in self._nodes:
            move(self._ledger, claim)
        else:
            self._ledger.claim([claim])

    def restore(self, uuids: Collection[str]) -> None:
        """Undo the claims since: release new ones, undo moves."""
        if fresh := [uuid for uuid in uuids if uuid not in self._nodes]:
            self._ledger.release(fresh)
        for uuid in (uuid for uuid in uuids if uuid in self._nodes):
            self._ledger.undo_move(move_of(uuid), uuid)


@contextmanager
def restored_on_failure(ledger: Ledger, uuids: Collection[str]) -> Iterator[ClaimRestore]:
    """If the block raises, restore the claims of the instances that are in `uuids` at that time."""
    held = ClaimRestore(ledger, uuids)
    try:
        yield held
    except Exception:
        try:
            held.restore(list(uuids))
        except RoostError as error:  # the error of the block is the one to raise
            LOG.error("claims of instances that failed are still there", instances=list(uuids), error=str(error))
        raise


def leave_tried_hosts(
    ledger: Ledger, replica: Replica, uuid: str, tried: Collection[Pair], home: Pair | None = None
) -> None:
    """Release a host that an instance holds and on which its build failed.

    `home`: (host, node) where the instance runs, for one that was to move; it holds that again.
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
