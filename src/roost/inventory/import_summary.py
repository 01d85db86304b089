# SPDX-License-Identifier: Apache-2.0
"""What an import did, counted: per section of the fleet file, and in all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from roost.store.reconcile import ReconcileResult


@dataclass(frozen=True)
class ImportCounts:
    """How many things of a kind were new, other than before, or as they were."""

    new: int = 0
    changed: int = 0
    unchanged: int = 0


@dataclass(frozen=True)
class SavedSection:
    """What became of a section whose things have a name, an id or a uuid: that is their key here."""

    ids: Mapping[str, Any]
    """Key -> the number of its row, for everything that the section lists."""
    new: frozenset[str]
    changed: frozenset[str]

    @property
    def counts(self) -> ImportCounts:
        """The numbers of new, changed and unchanged things."""
        return ImportCounts(len(self.new), len(self.changed), len(self.ids) - len(self.new) - len(self.changed))


def summarise(ids: Mapping[str, Any], rows: ReconcileResult, *parts: ReconcileResult) -> SavedSection:
    """The result of a section from those of its tables.

    `parts`: of tables that hold parts of things, such as metadata; their keys begin with the number of the whole.
    """
    new = frozenset(key for (key,) in rows.new)
    owners = {owner for part in parts for owner, _ in part.touched}
    changed = {key for (key,) in rows.changed} | {key for key, number in ids.items() if number in owners}
    return SavedSection(ids, new, frozenset(changed - new))


@dataclass(frozen=True)
class ImportSummary:
    """What an import did."""

    hosts: ImportCounts
    aggregates: ImportCounts
    flavors: ImportCounts
    images: ImportCounts
    server_groups: ImportCounts
    hosts_left_alone: int
    """In the store, and not in the file."""
    notes: tuple[str, ...] = ()
    """What else the operator should know."""
