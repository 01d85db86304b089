# SPDX-License-Identifier: Apache-2.0
"""Releases claims whose callers got no answer: of a scheduler that was killed, or of a placement that went away.

Only what no instance can be using is released: the caller has given up, the instance is in no cell (nova puts it into
cell0 then, or it was deleted), and nothing else has been written for it in placement.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from roost.errors import PlacementConflict, PlacementError
from roost.nova_cloud.claim_journal import ClaimJournal
from roost.nova_cloud.databases.api_reader import ApiReader
from roost.nova_cloud.placement.client import PlacementClient
from roost.nova_cloud.placement.consumers import read_held, release_held

LOG = logging.getLogger(__name__)

FIRST_GENERATION = 1
"""Generation of a consumer that was written once, by its claim."""
LONGEST_WAIT_SECONDS = 600
"""How long it is looked at whether an instance that is in no cell yet gets into one."""


class AbandonedClaims:
    """Looks after the claims that a journal lists as abandoned."""

    def __init__(
        self, journal: ClaimJournal, api: ApiReader, client: PlacementClient, now: Callable[[], float]
    ) -> None:
        """`now`: seconds since the epoch."""
        self._journal, self._api, self._client, self._now = journal, api, client, now

    def release(self) -> None:
        """Release those that no instance uses; forget those that one does, or for which that stays unknown.

        Nothing is done while it is not known which cell is cell0.
        """
        self._journal.take_over()
        due, cell0 = self._journal.abandoned(), self._api.cell0_id
        if not due or cell0 is None:
            return
        cells = self._api.read_instance_cells(due)
        for consumer, since in due.items():
            if consumer not in cells or cells[consumer] == cell0:
                self._try_to_release(consumer)
            elif cells[consumer] is not None or self._now() > since + LONGEST_WAIT_SECONDS:
                self._journal.end([consumer])

    def _try_to_release(self, consumer: str) -> None:
        try:
            self._release_one(consumer)
        except PlacementError as error:  # tried again with the next look, after the others
            LOG.debug("what instance %s holds could not be looked at: %s", consumer, error)

    def _release_one(self, consumer: str) -> None:
        held = read_held(self._client, consumer)
        if held.allocations and held.generation == FIRST_GENERATION:
            try:
                release_held(self._client, consumer, held)
                LOG.info("what instance %s held in placement is released: its request was not answered", consumer)
            except PlacementConflict as error:
                LOG.info("what instance %s holds in placement stays: %s", consumer, error)
        self._journal.end([consumer])
