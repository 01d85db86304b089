# SPDX-License-Identifier: Apache-2.0
"""What becomes of a write to nova's databases without the right to it: one line that says which right is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy.engine import URL

from roost.errors import DatabaseReadOnly, DatabaseRefused
from roost.nova.databases.table_rights import find_missing_grant

REFUSED_SECONDS = 300.0
"""How long to wait after a write that was refused: rights do not change often."""


@contextmanager
def needs_rights(url: URL, rights: str, table: str) -> Iterator[None]:
    """In this context the hint of a DatabaseRefused is the GRANT that helps, if a right is missing."""
    try:
        yield
    except DatabaseRefused as error:
        grant = find_missing_grant(error, url, rights, table)
        if not grant:
            raise
        raise DatabaseRefused(error.message, f"it needs: {grant}") from error


class RepeatedWrite:
    """A write that is repeated at an interval, and rarely while it is refused."""

    def __init__(self, write: Callable[[], object], seconds: Callable[[], float]) -> None:
        """`seconds`: the time between two writes."""
        self._write, self._interval, self._is_refused = write, seconds, False

    def run(self) -> None:
        """Write once."""
        self._is_refused = False
        try:
            self._write()
        except (DatabaseRefused, DatabaseReadOnly):
            self._is_refused = True
            raise

    def seconds(self) -> float:
        """Time until the next write."""
        return max(self._interval(), REFUSED_SECONDS) if self._is_refused else self._interval()
