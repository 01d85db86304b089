# SPDX-License-Identifier: Apache-2.0
"""Result of an import: how much was new, changed and unchanged, per section of the fleet file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from roost.store.reconcile import ReconcileResult


@dataclass(frozen=True)
class ImportCounts:
    """How many entries of a section were new, changed and unchanged."""

    new: int = 0
    changed: int = 0
    unchanged: int = 0


@dataclass(frozen=True)
class SavedSection:
    """Result of saving a section. Keys are names, ids or uuids, by which its entries are matched."""

    ids: Mapping[str, Any]
    """Key -> row id, for every entry of the section."""
    new: frozenset[str]
    """Keys of entries that were inserted."""
    changed: frozenset[str]
    """Keys of entries that were stored and differed."""

    @property
    def counts(self) -> ImportCounts:
        """How many entries were new, changed and unchanged."""
        return ImportCounts(len(self.new), len(self.changed), len(self.ids) - len(self.new) - len(self.changed))


def summarise(ids: Mapping[str, Any], rows: ReconcileResult, *parts: ReconcileResult) -> SavedSection:
    """The result of a section, from the results of its tables.

    `rows`: of the main table. `parts`: of dependent tables, such as metadata; their keys begin with the row id of the
    entry, which counts as changed if one of its parts is.
    """
    new = frozenset(key for (key,) in rows.new)
    owners = {owner for part in parts for owner, _ in part.touched}
    changed = {key for (key,) in rows.changed} | {key for key, number in ids.items() if number in owners}
    return SavedSection(ids, new, frozenset(changed - new))


@dataclass(frozen=True)
class ImportSummary:
    """Result of an import."""

    hosts: ImportCounts
    aggregates: ImportCounts
    flavors: ImportCounts
    images: ImportCounts
    server_groups: ImportCounts
    hosts_left_alone: int
    """Nodes that are in the database and not in the file."""
    notes: tuple[str, ...] = ()
    """Remarks for the operator."""
