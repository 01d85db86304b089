# SPDX-License-Identifier: Apache-2.0
"""What changes in a table of hosts between decisions: captured from its change log, and applied to a restored table.

A position counts checkpoints and groups of changes since a scheduler began. The state at a position is that of the
last checkpoint up to it, with the groups after the checkpoint applied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from roost.hosts import HostTable
from roost.hosts.instances import Instance
from roost.model import Aggregate
from roost.records.decision_codec import (
    SharedReader,
    SharedWriter,
    codec_of,
    read_aggregates,
    read_instance,
    write_aggregates,
    write_instance,
)

MOST_CHANGES_AFTER_CHECKPOINT = 10_000
"""Changed rows after which a checkpoint is due; four more per host, whose part of a checkpoint is larger by far."""
CHECKPOINT_SECONDS = 900.0
"""A checkpoint that is older is replaced by a new one, if anything changed since."""
OLDEST_CHECKPOINT_SECONDS = 6 * 3600.0
"""A checkpoint that is older is replaced in any case: pruning removes states of schedulers that are idle."""
_INSTANCES = "instances"


class RowChange(NamedTuple):
    """New values of a row, captured when they were current."""

    row: int
    numbers: dict[str, float]
    encoded: dict[str, Any]
    removed: list[str]
    """Instances that left the row."""
    added: list[Instance]
    """Instances that came, or are recorded otherwise than before."""


class ChangeGroup(NamedTuple):
    """All that changed between two decisions."""

    position: int
    rows: list[RowChange]
    known_aggregates: tuple[Aggregate, ...] | None
    """All aggregates; None if they are the same as before."""


class Checkpoint(NamedTuple):
    """The whole table at a position."""

    position: int
    table: HostTable
    """A copy, which nobody changes."""


class TableObserver:
    """Captures the changes of a scheduler's table, between calls that hold the lock of the table."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock`: monotonic, in seconds."""
        self._clock = clock
        self._table: HostTable | None = None
        """The table observed last; None: a checkpoint is due."""
        self._position = 0
        self._version = self._checkpoint_version = 0
        """Versions of its change log: as far as it was captured, and at the last checkpoint."""
        self._changed_rows = 0
        """Since the last checkpoint."""
        self._taken_at = 0.0
        """Clock time of the last checkpoint."""
        self._uuids: Mapping[int, str] = {}
        self._aggregates: tuple[Aggregate, ...] = ()
        self._present: dict[int, Mapping[str, Instance]] = {}
        """Row -> instances there, as far as they were captured."""

    def start_again(self) -> None:
        """Take a checkpoint next: what was captured last is lost."""
        self._table = None

    def observe(self, table: HostTable) -> tuple[int, Checkpoint | ChangeGroup | None]:
        """The position of the present state, and what leads there from the one before; None: nothing changed."""
        if self._is_checkpoint_due(table):
            return self._take_checkpoint(table)
        aggregates = None if table.known_aggregates is self._aggregates else table.known_aggregates
        if table.changes.version == self._version and aggregates is None:
            return self._position, None
        found = table.changes.rows_since(self._version)
        if found is None:
            return self._take_checkpoint(table)
        self._version, self._aggregates = table.changes.version, table.known_aggregates
        self._changed_rows += len(found)
        self._position += 1
        rows = [self._capture(table, row, columns) for row, columns in found.items()]
        return self._position, ChangeGroup(self._position, rows, aggregates)

    def _is_checkpoint_due(self, table: HostTable) -> bool:
        if table is not self._table or table.uuids is not self._uuids:
            return True
        if self._changed_rows > MOST_CHANGES_AFTER_CHECKPOINT + 4 * len(table.names):
            return True
        age = self._clock() - self._taken_at
        is_changed = table.changes.version != self._checkpoint_version
        return age > OLDEST_CHECKPOINT_SECONDS or (is_changed and age > CHECKPOINT_SECONDS)

    def _take_checkpoint(self, table: HostTable) -> tuple[int, Checkpoint]:
        copy = table.copy()
        self._table, self._uuids, self._aggregates = table, table.uuids, table.known_aggregates
        self._version = self._checkpoint_version = table.changes.version
        self._changed_rows, self._taken_at = 0, self._clock()
        self._position += 1
        self._present = dict(copy.instances)
        return self._position, Checkpoint(self._position, copy)

    def _capture(self, table: HostTable, row: int, columns: frozenset[str]) -> RowChange:
        numeric, encoded, has_instances = _split(columns, frozenset(table.encoded))
        removed: list[str] = []
        added: list[Instance] = []
        if has_instances:
            before, now = self._present.get(row, {}), dict(table.instances.get(row, {}))
            self._present[row] = now
            removed = [uuid for uuid in before if uuid not in now]
            added = [each for uuid, each in now.items() if before.get(uuid) is not each]
        buffers = table.buffers
        numbers = {name: buffers[name][row] for name in numeric}
        return RowChange(row, numbers, {name: table.encoded[name].at(row) for name in encoded}, removed, added)


@lru_cache(maxsize=1024)
def _split(columns: frozenset[str], encoded: frozenset[str]) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
    """Numeric columns, dictionary-encoded ones, and whether instances are among the columns."""
    names = columns - {_INSTANCES}
    return tuple(sorted(names - encoded)), tuple(sorted(names & encoded)), _INSTANCES in columns


# --- as JSON data ------------------------------------------------------------------------------------


def changes_to_json(groups: Sequence[ChangeGroup]) -> Any:
    """Groups of changes as JSON data."""
    shared = SharedWriter()
    written = [
        [
            group.position,
            [_write_row(each, shared) for each in group.rows],
            None if group.known_aggregates is None else write_aggregates(group.known_aggregates, shared),
        ]
        for group in groups
    ]
    return {"groups": written, "shared": shared.entries}


def _write_row(change: RowChange, shared: SharedWriter) -> Any:
    encoded = {name: codec_of(name).write(value, shared) for name, value in change.encoded.items()}
    added = [write_instance(each, shared) for each in change.added]
    return [change.row, change.numbers, encoded, change.removed, added]


def apply_changes(table: HostTable, data: Any, after: int, until: int) -> None:
    """Apply the groups of changes with positions beyond `after`, up to and with `until`."""
    shared = SharedReader(data["shared"])
    for position, rows, known_aggregates in data["groups"]:
        if after < position <= until:
            for row, numbers, encoded, removed, added in rows:
                for name in numbers:
                    table.ensure_column(name)
                table.set_numbers(row, numbers)
                for name, value in encoded.items():
                    table.encoded[name].set(row, codec_of(name).read(value, shared))
                _replace_instances(table, row, [read_instance(each, shared) for each in added], removed)
            if known_aggregates is not None:
                table.known_aggregates = read_aggregates(known_aggregates, shared)
    table.find_granular_classes()


def _replace_instances(table: HostTable, row: int, added: Sequence[Instance], removed: Sequence[str]) -> None:
    """Instances as they were recorded: unlike a report, a record is not completed by what was known before."""
    index = table.instance_index
    index.replace(row, (), removed)
    for each in added:
        index.put(row, each)
