# SPDX-License-Identifier: Apache-2.0
"""Which rows and columns changed, in order: what is cached elsewhere is patched from here."""

from __future__ import annotations

from typing import NamedTuple


class Change(NamedTuple):
    """One row changed in these columns."""

    row: int
    columns: frozenset[str]


class ChangeLog:
    """The latest changes. `version` counts all of them, those already forgotten included."""

    def __init__(self, keep: int = 8192) -> None:
        self.version = 0
        self.aggregates_version = 0
        """When a host last entered or left an aggregate, or its aggregates changed."""
        self._keep = keep
        self._rows: list[int] = []
        self._columns: list[frozenset[str]] = []
        """Side by side: thousands of pairs would be work for the garbage collector."""

    def note(self, row: int, columns: frozenset[str]) -> None:
        """Write down a change."""
        self.version += 1
        if "aggregates" in columns:
            self.aggregates_version = self.version
        self._rows.append(row)
        self._columns.append(columns)
        if len(self._rows) > 2 * self._keep:
            del self._rows[: self._keep], self._columns[: self._keep]

    def rows_since(self, version: int) -> dict[int, frozenset[str]] | None:
        """The same by row, each with all columns in which it changed."""
        if self.version - version == 1:  # as after most requests
            return {self._rows[-1]: self._columns[-1]}
        start = self._start_of(version)
        if start is None:
            return None
        found: dict[int, frozenset[str]] = {}
        for row, columns in zip(self._rows[start:], self._columns[start:], strict=True):
            before = found.get(row)
            found[row] = columns if before is None or before is columns else before | columns
        return found

    def since(self, version: int) -> list[Change] | None:
        """Changes after that version, oldest first; None where some of them are forgotten: read anew."""
        start = self._start_of(version)
        if start is None:
            return None
        return [Change(*pair) for pair in zip(self._rows[start:], self._columns[start:], strict=True)]

    def _start_of(self, version: int) -> int | None:
        """Where the changes after that version begin; None where some of them are forgotten."""
        missing = self.version - version
        return None if missing > self._keep else len(self._rows) - missing
