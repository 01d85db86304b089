# SPDX-License-Identifier: Apache-2.0
"""What becomes of a write to nova's databases without the right to it: one line that says which right is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy.engine import URL

from roost.errors import DatabaseReadOnly, DatabaseRefused

REFUSED_SECONDS = 300.0
"""How long to wait after a write that was refused: rights do not change often."""


@contextmanager
def needs_rights(url: URL, rights: str, table: str) -> Iterator[None]:
    """In this context a refusal becomes a DatabaseRefused whose hint is the GRANT that helps."""
    try:
        yield
    except (DatabaseRefused, DatabaseReadOnly) as error:
        raise DatabaseRefused(error.message, f"it needs: {grant_line(url, rights, table)}") from error


def grant_line(url: URL, rights: str, table: str) -> str:
    """The statement that gives the user of an address these rights, such as `SELECT, INSERT`, on a table."""
    if url.get_backend_name() != "postgresql":
        return f"GRANT {rights} ON {url.database}.{table} TO '{url.username}'@'%'"
    line = f"GRANT {rights} ON {table} TO {url.username}"
    return f"{line}; GRANT USAGE ON SEQUENCE {table}_id_seq TO {url.username}" if "INSERT" in rights else line


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
        except DatabaseRefused:
            self._is_refused = True
            raise

    def seconds(self) -> float:
        """Time until the next write."""
        return max(self._interval(), REFUSED_SECONDS) if self._is_refused else self._interval()
