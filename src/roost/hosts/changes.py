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
        self._latest: list[Change] = []

    def note(self, row: int, columns: frozenset[str]) -> None:
        """Write down a change."""
        self.version += 1
        if "aggregates" in columns:
            self.aggregates_version = self.version
        self._latest.append(Change(row, columns))
        if len(self._latest) > 2 * self._keep:
            del self._latest[: self._keep]

    def since(self, version: int) -> list[Change] | None:
        """Changes after that version, oldest first; None where some of them are forgotten: read anew."""
        missing = self.version - version
        return None if missing > self._keep else self._latest[len(self._latest) - missing :]
