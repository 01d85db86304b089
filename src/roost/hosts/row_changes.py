# SPDX-License-Identifier: Apache-2.0
"""The change log of a table: which rows changed in which columns. Caches of per-row results are patched from it."""

from __future__ import annotations

KEPT_CHANGES = 65_536
"""A minute of changes where 10,000 hosts report every 10 seconds."""
MOST_SETS = 512
"""Different sets of columns that are remembered, to keep equal ones once; there are a few dozen."""


class ChangeLog:
    """The latest changes of a table, bounded in number. `version` counts all changes, also those dropped since."""

    def __init__(self, keep: int = KEPT_CHANGES) -> None:
        self.version = 0
        self.aggregates_version = 0
        """The version at which the aggregates of a host last changed; 0: never."""
        self._keep = keep
        self._rows: list[int] = []
        self._columns: list[frozenset[str]] = []
        """Parallel to `_rows`: thousands of tuples would be work for the garbage collector."""
        self._sets: dict[frozenset[str], frozenset[str]] = {}

    def note(self, row: int, columns: frozenset[str]) -> None:
        """Record that a row changed in these columns, which the table has, or in "instances"."""
        self.version += 1
        if "aggregates" in columns:
            self.aggregates_version = self.version
        self._rows.append(row)
        self._columns.append(self._known(columns))
        if len(self._rows) > 2 * self._keep:
            del self._rows[: self._keep], self._columns[: self._keep]

    def _known(self, columns: frozenset[str]) -> frozenset[str]:
        """The set that was noted first of those that equal this one: a set of its own per change takes 400 bytes."""
        if len(self._sets) >= MOST_SETS:
            self._sets.clear()
        return self._sets.setdefault(columns, columns)

    def rows_since(self, version: int) -> dict[int, frozenset[str]] | None:
        """Row -> columns changed after a version, in order of first change; None if some changes were dropped.

        On None the caller must read all rows again.
        """
        if self.version - version == 1:  # fast path: the state after most requests
            return {self._rows[-1]: self._columns[-1]}
        missing = self.version - version
        if missing > self._keep:
            return None
        start = len(self._rows) - missing
        found: dict[int, frozenset[str]] = {}
        for row, columns in zip(self._rows[start:], self._columns[start:], strict=True):
            before = found.get(row)
            found[row] = columns if before is None or before is columns else before | columns
        return found
