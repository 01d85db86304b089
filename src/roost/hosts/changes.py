# SPDX-License-Identifier: Apache-2.0
"""Which rows and columns changed, in order: what is cached elsewhere is patched from here."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import islice


@dataclass(frozen=True, slots=True)
class Change:
    """One row changed in these columns."""

    version: int
    row: int
    columns: frozenset[str]


class ChangeLog:
    """The latest changes. `version` counts all of them, those already forgotten included."""

    def __init__(self, keep: int = 8192) -> None:
        self.version = 0
        self._latest: deque[Change] = deque(maxlen=keep)

    def note(self, row: int, columns: frozenset[str]) -> None:
        """Write down a change."""
        self.version += 1
        self._latest.append(Change(self.version, row, columns))

    def since(self, version: int) -> list[Change] | None:
        """Changes after that version, oldest first; None where some of them are forgotten: read anew."""
        missing = self.version - version
        if missing > len(self._latest):
            return None
        return list(islice(self._latest, len(self._latest) - missing, None))
