# SPDX-License-Identifier: Apache-2.0
"""Restores claims after a failure. Agents of Icehouse and Juno know of no ledger, so the scheduler releases what it
claimed on a host that an instance cannot use.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

import structlog

from roost.errors import RoostError
from roost.hosts.record import Pair
from roost.ledger.claim import Claim
from roost.ledger.ledger import Ledger
from roost.model.resources import move_of
from roost.scheduler.claiming import Replica
from roost.scheduler.rounds import plan_claims, read_held

LOG = structlog.get_logger(__name__)


class ClaimRestore:
    """What some instances held before hosts were chosen for them, so that the choice can be undone."""

    def __init__(self, ledger: Ledger, uuids: Collection[str]) -> None:
        self._ledger = ledger
        self._before = read_held(ledger, list(uuids))

    def claim(self, claim: Claim, source: str) -> None:
        """Claim another host for an instance that runs on the host `source`, which it keeps as that of a move."""
        plan = plan_claims([claim], read_held(self._ledger, [claim.consumer_uuid]), [source])
        self._ledger.claim_and_move(*plan)

    def restore(self, uuids: Collection[str]) -> None:
        """Undo the claims since: undo moves, release new claims. What is as it was before stays."""
        now = read_held(self._ledger, list(uuids))
        for uuid in uuids:
            migration = move_of(uuid)
            if all(now.get(each) == self._before.get(each) for each in (uuid, migration)):
                continue
            if migration in now:
                self._ledger.undo_move(migration, uuid, now.get(uuid))
            else:
                self._ledger.release_on([uuid], now.get(uuid, {}).keys() - self._before.get(uuid, {}).keys())


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
    with replica.lock:
        table = replica.table
        rows = [row for host, _ in tried for row in table.rows_of_host(host) if row in table.uuids]
        nodes = [table.uuids[row] for row in rows if _has_failed(table.names[row], tried, home)]
    if not nodes:
        return
    if home is None:
        ledger.release_on([uuid, move_of(uuid)], nodes)
    else:
        ledger.undo_move(move_of(uuid), uuid, nodes)


def _has_failed(pair: Pair, tried: Collection[Pair], home: Pair | None) -> bool:
    host, _ = pair
    return pair != home and (pair in tried or (host, "") in tried)
