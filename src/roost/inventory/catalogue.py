# SPDX-License-Identifier: Apache-2.0
"""Saves what hosts are not: aggregates, flavors, images and server groups, each with the parts that hang on it.

Every section goes the same way: find what is there, check what is to be written, write what differs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Table, select

from roost.errors import BadInput
from roost.inventory.bulk import Row, delete_rows, insert_rows, raw, update_rows
from roost.inventory.catalogue_rows import flavor_row, group_row, image_row
from roost.inventory.column_limits import check_rows
from roost.inventory.node_states import is_same_json
from roost.inventory.row_encoder import derived_uuid
from roost.model import Flavor, Image, ServerGroup
from roost.store.bulk import rows_where
from roost.store.schema import (
    flavor_extra_specs,
    flavors,
    images,
    server_group_members,
    server_groups,
)


@dataclass(frozen=True)
class ImportCounts:
    """How many things of a kind were new, other than before, or the same."""

    new: int = 0
    changed: int = 0
    unchanged: int = 0


@dataclass(frozen=True)
class SaveResult:
    """What became of a section: key -> number or id of the row; those that are new; those that changed."""

    keys: Mapping[str, Any]
    new: frozenset[str]
    changed: frozenset[str]

    @property
    def tally(self) -> ImportCounts:
        """Counted."""
        return ImportCounts(len(self.new), len(self.changed), len(self.keys) - len(self.new) - len(self.changed))


def save_flavors(connection: Connection, wanted: Mapping[str, Flavor], now: datetime) -> SaveResult:
    """By name."""
    known = rows_by(connection, flavors, "name", wanted)
    rows = {name: flavor_row(name, flavor, known.get(name, {}).get("flavorid")) for name, flavor in wanted.items()}
    check_owners(connection, flavors, "flavorid", "name", rows, "flavor")
    changed = save_named(connection, flavors, "name", rows, known, now)
    ids = {name: row["id"] for name, row in rows_by(connection, flavors, "name", wanted).items()}
    parts = {ids[name]: dict(flavor.extra_specs) for name, flavor in wanted.items()}
    touched = save_parts(connection, flavor_extra_specs, "flavor_id", "key", "value", parts)
    return summed_up(ids, known, changed, touched)


def save_images(connection: Connection, wanted: Mapping[str, Image], now: datetime) -> SaveResult:
    """By id; one without an id by its name."""
    ids = _identities(connection, images, "id", "image", {name: image.id for name, image in wanted.items()})
    rows = {ids[name]: image_row(name, image, ids[name]) for name, image in wanted.items()}
    known = rows_by(connection, images, "id", rows)
    changed = save_named(connection, images, "id", rows, known, now)
    return SaveResult(
        {key: key for key in rows}, frozenset(rows.keys() - known.keys()), frozenset(changed & known.keys())
    )


def save_groups(connection: Connection, wanted: Mapping[str, ServerGroup], now: datetime) -> SaveResult:
    """By uuid; one without a uuid by its name. Locks the groups, which come before the nodes."""
    given = {name: group.uuid for name, group in wanted.items()}
    uuids = _identities(connection, server_groups, "uuid", "server group", given)
    rows = {uuids[name]: group_row(name, group, uuids[name]) for name, group in wanted.items()}
    known = rows_by(connection, server_groups, "uuid", rows)
    list(rows_where(connection, select(server_groups.c.id).with_for_update(), server_groups.c.id, _numbers(known)))
    changed = save_named(connection, server_groups, "uuid", rows, known, now)
    ids = {uuid: row["id"] for uuid, row in rows_by(connection, server_groups, "uuid", rows).items()}
    members = {ids[uuids[name]]: dict.fromkeys(group.members) for name, group in wanted.items()}
    touched = save_parts(connection, server_group_members, "group_id", "server_uuid", None, members)
    return summed_up(ids, known, changed, touched)


def summed_up(ids: Mapping[str, int], known: Collection[str], changed: set[str], touched: set[int]) -> SaveResult:
    """What became of a section whose rows have parts. `touched`: numbers of those whose parts changed."""
    keys = {key for key, number in ids.items() if key in changed or number in touched}
    return SaveResult(ids, frozenset(ids.keys() - known), frozenset(keys.intersection(known)))


def _numbers(rows: Mapping[str, Row]) -> list[int]:
    return [row["id"] for row in rows.values()]


def rows_by(connection: Connection, table: Table, key: str, wanted: Collection[str]) -> dict[str, Row]:
    """The rows of these keys, JSON as text."""
    plain = raw(table)
    rows = rows_where(connection, select(plain), plain.c[key], wanted)
    return {getattr(row, key): dict(row._mapping) for row in rows}


def _identities(
    connection: Connection, table: Table, key: str, kind: str, given: Mapping[str, str | None]
) -> dict[str, str]:
    """Name -> id: the one that is given, else that of the same name in the store, else one made of the name."""
    by_name: dict[str, list[str]] = defaultdict(list)
    for identity, name in rows_where(connection, select(table.c[key], table.c.name), table.c.name, given):
        by_name[name].append(identity)
    found: dict[str, str] = {}
    owners: dict[str, str] = {}
    for name, own in given.items():
        there = by_name.get(name, [])
        if own and there and own not in there:
            raise BadInput(f"{kind} {name}: the store has one of that name with {key} {there[0]}", f"not {own}")
        if not own and len(there) > 1:
            raise BadInput(f"{kind} {name}: the store has {len(there)} of that name", f"give its {key}")
        found[name] = own or (there[0] if there else derived_uuid(kind, name))
        if (other := owners.setdefault(found[name], name)) != name:
            raise BadInput(f"{kind} {name}: {other} has {key} {found[name]} too", "give each its own")
    return found


def check_owners(
    connection: Connection, table: Table, column: str, key: str, rows: Mapping[str, Row], kind: str
) -> None:
    """What belongs to one alone, by file and store together."""
    wanted = {row[column] for row in rows.values()}
    found = rows_where(connection, select(table.c[column], table.c[key]), table.c[column], wanted)
    owners = {value: name for value, name in found if name not in rows}
    for name, row in rows.items():
        if (other := owners.setdefault(row[column], name)) != name:
            raise BadInput(f"{kind} {name}: {other} has {column} {row[column]} already", "give each its own")


def save_named(
    connection: Connection,
    table: Table,
    key: str,
    wanted: Mapping[str, Row],
    known: Mapping[str, Row],
    now: datetime,
) -> set[str]:
    """Rows found by a key that is a text: the keys of those that are new or changed."""
    new = [row for name, row in wanted.items() if name not in known]
    changed = [row for name, row in wanted.items() if name in known and not _is_same(known[name], row)]
    kind = table.name.removesuffix("s").replace("_", " ")
    check_rows(table, (*new, *changed), lambda row: f"{kind} {row['name']}")
    insert_rows(connection, raw(table), (row | {"created_at": now} for row in new))
    update_rows(connection, raw(table), (key,), [row | {"updated_at": now} for row in changed])
    return {row[key] for row in (*new, *changed)}


def _is_same(old: Row, new: Row) -> bool:
    return all(
        old[name] == value or (name == "properties" and is_same_json(old[name], value)) for name, value in new.items()
    )


def save_parts(
    connection: Connection,
    table: Table,
    owner: str,
    key: str,
    value: str | None,
    wanted: Mapping[int, Mapping[str, Any]],
    goes: Collection[str] | None = None,
) -> set[int]:
    """Rows that belong to others, such as metadata: the owners of those that came, went or changed.

    `value`: the column that goes with the key, if there is one. `goes`: the keys that may go; None: any.
    """
    there: dict[int, dict[str, Any]] = {number: {} for number in wanted}
    columns = [table.c[owner], table.c[key], *([table.c[value]] if value else ())]
    for number, name, *rest in rows_where(connection, select(*columns), table.c[owner], wanted):
        there[number][name] = rest[0] if rest else None
    come: list[Row] = []
    changed: list[Row] = []
    gone: list[Row] = []
    for number, parts in wanted.items():
        for name, content in parts.items():
            row = {owner: number, key: name} | ({value: content} if value else {})
            if name not in there[number]:
                come.append(row)
            elif there[number][name] != content:
                changed.append(row)
        left = [name for name in there[number] if name not in parts and (goes is None or name in goes)]
        gone += [{owner: number, key: name} for name in left]
    _write_parts(connection, table, (owner, key), come, changed, gone)
    return {row[owner] for row in (*come, *changed, *gone)}


def _write_parts(
    connection: Connection, table: Table, key: Sequence[str], come: list[Row], changed: list[Row], gone: list[Row]
) -> None:
    check_rows(table, (*come, *changed), lambda row: f"{table.name.replace('_', ' ')}: {row[key[1]]!r:.60}")
    delete_rows(connection, table, key, gone)
    insert_rows(connection, table, come)
    update_rows(connection, table, key, changed)
