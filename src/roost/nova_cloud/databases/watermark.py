# SPDX-License-Identifier: Apache-2.0
"""Up to which time the rows of a table are known, and from which time on they are read again.

Times of rows come from the clocks of nova's services, have whole seconds on MariaDB, and become visible at the end of
their transaction. So each read goes back some seconds, and rows that were seen with the same content are no change.
What still escapes - a clock that is behind by more than OVERLAP, a transaction that takes longer - is found when all
rows are compared (reconcile).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from sqlalchemy import DateTime, bindparam

OVERLAP = timedelta(seconds=5)
"""How far a read goes back behind the newest time that was seen."""
IDLE_WINDOW = timedelta(seconds=30)
"""How far a read goes back behind the last read at most, so that the last rows before a quiet time are not read for
ever: it bounds the difference between this machine's clock and those of nova's services."""

SINCE = bindparam("since", type_=DateTime())
"""Parameter of statements, which are built once: building one takes longer than a small result."""


class Watermark:
    """The newest time seen in a table, and when it was read last."""

    def __init__(self) -> None:
        self._newest: datetime | None = None
        self._read_at = datetime(1970, 1, 1)  # without a zone, as in the database

    @property
    def since(self) -> datetime:
        """The time, without a zone as in the database, from which on rows are to be read again."""
        earliest = self._read_at - IDLE_WINDOW
        newest = min(self._newest or earliest, self._read_at)  # a clock that is ahead must not hide the others
        return max(newest - OVERLAP, earliest)

    def advance(self, read_at: datetime, times: Iterable[datetime | None]) -> None:
        """Record a read that began at `read_at`, with the times of its rows, None for a NULL."""
        self._read_at = read_at.astimezone(UTC).replace(tzinfo=None)
        self._newest = max((each for each in (self._newest, *times) if each is not None), default=None)
