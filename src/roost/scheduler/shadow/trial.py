# SPDX-License-Identifier: Apache-2.0
"""A decision that was made and given back: what it was, how long it took, and the review of all hosts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from roost.errors import RoostError
from roost.hosts import HostTable
from roost.model import Decision, RequestSpec
from roost.scheduler.claiming import Chooser
from roost.scheduler.pipeline import Pipeline
from roost.scheduler.search import Randomness
from roost.scheduler.shadow.host_review import HostReview


@dataclass(frozen=True)
class Trial:
    """What Roost decided about one request."""

    request_id: str
    instance: str | None
    """Uuid of the first instance."""
    instances: int
    decided_at: datetime
    host: str | None
    """Of the first instance; None where there was no host for all of them."""
    summary: str
    """The decision in a sentence."""
    review: HostReview | None
    """None where the driver has no weights."""
    roost_us: float
    refresh_us: float


class RecordingChooser:
    """A `Chooser` that remembers the request as it was put to another one, completed and with its group."""

    def __init__(self, chooser: Chooser) -> None:
        self._chooser = chooser
        self._spec: RequestSpec | None = None

    def place(
        self,
        table: HostTable,
        spec: RequestSpec,
        uuids: Sequence[str | None],
        *,
        randomness: Randomness,
        clock: Callable[[], int],
        alternates: int = 0,
    ) -> Decision:
        """The decision of the other chooser."""
        self._spec = spec.for_instance(uuids[0]) if uuids else spec
        return self._chooser.place(table, spec, uuids, randomness=randomness, clock=clock, alternates=alternates)

    def forget(self) -> None:
        """A new request begins, which may be answered without this chooser: it has no review then."""
        self._spec = None

    def warm(self, table: HostTable, spec: RequestSpec) -> None:
        """Update the caches of the other chooser."""
        self._chooser.warm(table, spec)

    def review(self, table: HostTable) -> HostReview | None:
        """What the rules say of every host for the last request; None for a driver without filters and weighers.

        To be called before the table changes: with the replica's lock held since the request was placed.
        """
        if self._spec is None or not isinstance(self._chooser, Pipeline):
            return None
        try:
            return HostReview.of(self._chooser.rules, table, self._spec)
        except RoostError:  # a plugin; the decision itself has been made
            return None
