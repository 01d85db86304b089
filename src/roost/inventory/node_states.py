# SPDX-License-Identifier: Apache-2.0
"""What the tables say of some nodes: read under their locks, compared with what they should say, and written.

Only what differs is written. Start reading at `read_states` and `save_states`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, func, select

from roost.errors import DatabaseConflict
from roost.hosts.encoded import freeze
from roost.inventory.bulk import Row, delete_rows, insert_rows, raw, update_rows
from roost.inventory.column_limits import check_rows
from roost.inventory.row_encoder import JSON_COLUMNS
from roost.store.bulk import rows_where
from roost.store.change_log import NODES, USAGE, Change, usage_key
from roost.store.schema import allocations, compute_nodes, inventories, node_traits

RAW_NODES = raw(compute_nodes)
_TIMES = ("created_at", "updated_at")
_INVENTORY_KEY = ("node_id", "resource_class")
_ALLOCATION_KEY = ("consumer_uuid", "node_id", "resource_class")
_TRAIT_KEY = ("node_id", "trait")

Held = dict[str, dict[str, int]]
"""Consumer -> resource class -> amount."""


@dataclass
class NodeState:
    """One node in the tables. `row` has its names and uuid, but neither number nor times; JSON is text."""

    row: Row
    traits: frozenset[str] = frozenset()
    inventories: dict[str, Row] = field(default_factory=dict)
    """Resource class -> its row, without the node and what is used."""
    held: Held = field(default_factory=dict)
    id: int | None = None
    """None: not in the tables yet."""
    used: dict[str, int] = field(default_factory=dict)
    """Resource class -> what `inventories` says is used; as it was read."""

    @property
    def pair(self) -> tuple[str, str]:
        """Host and node."""
        return self.row["host"], self.row["hypervisor_hostname"]

    @property
    def number(self) -> int:
        """Of a node that is in the tables."""
        if self.id is None:
            raise ValueError(f"{place_of_node(self.row)} is not in the tables yet")
        return self.id

    def sum_held(self) -> dict[str, int]:
        """Resource class -> what all consumers hold: that is what `inventories.used` has to say."""
        sums = dict.fromkeys(self.inventories, 0)
        for amounts in self.held.values():
            for name, amount in amounts.items():
                if name in sums:
                    sums[name] += amount
        return sums


def lock_nodes(connection: Connection, ids: Collection[int]) -> Iterator[Any]:
    """Their rows, locked in the order of their numbers until the transaction ends."""
    return rows_where(connection, select(RAW_NODES).with_for_update(), RAW_NODES.c.id, ids)


def read_states(connection: Connection, ids: Collection[int]) -> dict[int, NodeState]:
    """The nodes of these numbers, locked; DatabaseConflict where one is gone."""
    found = {row.id: NodeState(_without_times(row), id=row.id) for row in lock_nodes(connection, ids)}
    if len(found) < len(ids):
        raise DatabaseConflict("a node was deleted meanwhile", "try again")
    for node_id, trait in rows_where(connection, select(node_traits), node_traits.c.node_id, ids):
        found[node_id].traits |= {trait}
    for row in rows_where(connection, select(inventories), inventories.c.node_id, ids):
        amounts = dict(row._mapping)
        state, name = found[amounts.pop("node_id")], amounts.pop("resource_class")
        state.used[name] = amounts.pop("used")
        state.inventories[name] = amounts
    for row in rows_where(connection, select(allocations), allocations.c.node_id, ids):
        found[row.node_id].held.setdefault(row.consumer_uuid, {})[row.resource_class] = row.used
    return found


def _without_times(row: Any) -> Row:
    return {name: value for name, value in row._mapping.items() if name not in ("id", *_TIMES)}


Pairs = Sequence[tuple[NodeState | None, NodeState]]
"""What the tables say - None for a node that is new - and what they should say."""


def save_states(connection: Connection, pairs: Pairs, now: datetime) -> list[Change]:
    """Write what differs: what changed. New nodes get their numbers; consumers must be there already.

    A node that is new came with all that is on it: that is one change.
    """
    _check(new for old, new in pairs if old is None or not is_same_row(old.row, new.row))
    _insert_nodes(connection, [new for old, new in pairs if old is None], now)
    _update_nodes(connection, [new for old, new in pairs if old and not is_same_row(old.row, new.row)], now)
    whole = [(old or NodeState(new.row), new) for old, new in pairs]
    _save_traits(connection, whole)
    _save_inventories(connection, whole)
    _save_allocations(connection, whole)
    return [change for old, new in pairs for change in _changes(old, new)]


def is_same_row(old: Row, new: Row) -> bool:
    """Whether two rows say the same; JSON may be written in another order."""
    return all(
        old.get(name) == value or (name in JSON_COLUMNS and is_same_json(old.get(name), value))
        for name, value in new.items()
    )


def is_same_json(old: str | None, new: str | None) -> bool:
    """Whether two texts of JSON stand for the same."""
    if old is None or new is None:
        return old is new
    return old == new or freeze(json.loads(old)) == freeze(json.loads(new))


def place_of_node(row: Row) -> str:
    """Whose row it is, in words."""
    return f"host {row['host']}, node {row['hypervisor_hostname']}"


def _check(states: Iterable[NodeState]) -> None:
    check_rows(compute_nodes, (state.row for state in states), place_of_node)


def _insert_nodes(connection: Connection, states: Sequence[NodeState], now: datetime) -> None:
    """And find out their numbers: all came in this transaction, so they are above the highest before it."""
    if not states:
        return
    highest = connection.scalar(select(func.max(compute_nodes.c.id))) or 0
    insert_rows(connection, RAW_NODES, (state.row | {"created_at": now} for state in states))
    names = select(RAW_NODES.c.id, RAW_NODES.c.host, RAW_NODES.c.hypervisor_hostname)
    rows = connection.execute(names.where(RAW_NODES.c.id > highest))
    by_pair = {(row.host, row.hypervisor_hostname): row.id for row in rows}
    for state in states:
        state.id = by_pair[state.pair]


def _update_nodes(connection: Connection, states: Sequence[NodeState], now: datetime) -> None:
    update_rows(connection, RAW_NODES, ("id",), [state.row | {"id": state.id, "updated_at": now} for state in states])


Whole = Sequence[tuple[NodeState, NodeState]]


def _save_traits(connection: Connection, pairs: Whole) -> None:
    gone = [{"node_id": new.id, "trait": each} for old, new in pairs for each in sorted(old.traits - new.traits)]
    come = [{"node_id": new.id, "trait": each} for old, new in pairs for each in sorted(new.traits - old.traits)]
    places = {new.id: place_of_node(new.row) for _, new in pairs}
    check_rows(node_traits, come, lambda row: places[row["node_id"]])
    delete_rows(connection, node_traits, _TRAIT_KEY, gone)
    insert_rows(connection, node_traits, come)


def _save_inventories(connection: Connection, pairs: Whole) -> None:
    gone, come, changed = [], [], []
    for old, new in pairs:
        sums = new.sum_held()
        for name, row in new.inventories.items():
            whole = row | {"node_id": new.id, "resource_class": name, "used": sums[name]}
            if name not in old.inventories:
                come.append(whole)
            elif old.inventories[name] != row or old.used.get(name) != sums[name]:
                changed.append(whole)
        gone += [{"node_id": new.id, "resource_class": name} for name in old.inventories if name not in sums]
    places = {new.id: place_of_node(new.row) for _, new in pairs}
    check_rows(inventories, (*come, *changed), lambda row: f"{places[row['node_id']]}: {row['resource_class']}")
    delete_rows(connection, inventories, _INVENTORY_KEY, gone)
    insert_rows(connection, inventories, come)
    update_rows(connection, inventories, _INVENTORY_KEY, changed)


def _save_allocations(connection: Connection, pairs: Whole) -> None:
    gone: list[Row] = []
    come: list[Row] = []
    changed: list[Row] = []
    for old, new in pairs:
        for consumer in (old.held.keys() | new.held.keys()) if old.held != new.held else ():
            before, after = old.held.get(consumer, {}), new.held.get(consumer, {})
            key = {"consumer_uuid": consumer, "node_id": new.id}
            gone += [key | {"resource_class": name} for name in before if name not in after]
            for name, amount in after.items():
                if before.get(name) != amount:
                    row = key | {"resource_class": name, "used": amount}
                    (changed if name in before else come).append(row)
    places = {new.id: place_of_node(new.row) for _, new in pairs}
    check_rows(allocations, (*come, *changed), lambda row: f"{places[row['node_id']]}: {row['resource_class']}")
    delete_rows(connection, allocations, _ALLOCATION_KEY, gone)
    insert_rows(connection, allocations, come)
    update_rows(connection, allocations, _ALLOCATION_KEY, changed)


def _changes(old: NodeState | None, new: NodeState) -> Iterator[Change]:
    if old is None or not _is_same_report(old, new):
        yield Change(NODES, str(new.number))
    if old is not None and old.held != new.held:
        for consumer in sorted(old.held.keys() | new.held.keys()):
            if old.held.get(consumer) != new.held.get(consumer):
                yield Change(USAGE, usage_key(new.number, consumer))


def _is_same_report(old: NodeState, new: NodeState) -> bool:
    return old.traits == new.traits and old.inventories == new.inventories and is_same_row(old.row, new.row)
