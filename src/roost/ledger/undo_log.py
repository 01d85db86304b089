# SPDX-License-Identifier: Apache-2.0
"""Undo log of a unit of work: an operation that fails is rolled back to its savepoint, the others stay."""

from __future__ import annotations

from collections.abc import Callable


class UndoLog:
    """Inverse actions of all changes made in memory so far, the newest last."""

    def __init__(self) -> None:
        self._actions: list[Callable[[], object]] = []

    def append(self, action: Callable[[], object]) -> None:
        """Add the inverse action of a change."""
        self._actions.append(action)

    def savepoint(self) -> int:
        """A position to which `rollback_to` can return."""
        return len(self._actions)

    def rollback_to(self, savepoint: int) -> None:
        """Undo all changes made after the savepoint, the newest first."""
        while len(self._actions) > savepoint:
            self._actions.pop()()
