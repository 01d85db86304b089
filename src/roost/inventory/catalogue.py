# SPDX-License-Identifier: Apache-2.0
"""Flavors, images and server groups in the tables, each with the parts that belong to it.

Every section of a fleet file is saved in the same steps: find what is stored, work out the rows, check that no two
things claim one identity, make the rows so. `catalogue_rows.py` says which column holds what.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Column, Connection, Engine, Table, select

from roost.errors import BadInput
from roost.inventory.catalogue_rows import flavor_entry, flavor_row, group_entry, group_row, image_entry, image_row
from roost.inventory.import_summary import SavedSection, summarise
from roost.inventory.row_encoder import derived_uuid
from roost.model import Flavor, Image, ServerGroup
from roost.store.bulk import rows_where
from roost.store.error_mapping import database_errors
from roost.store.reconcile import KeyedRows, Reconciler, ReconcileResult
from roost.store.schema import flavor_extra_specs, flavors, images, server_group_members, server_groups

_FLAVORS = Reconciler(flavors, ("name",))
_EXTRA_SPECS = Reconciler(flavor_extra_specs, ("flavor_id", "key"))
_IMAGES = Reconciler(images, ("id",))
_GROUPS = Reconciler(server_groups, ("uuid",))
_MEMBERS = Reconciler(server_group_members, ("group_id", "server_uuid"))

Entry = dict[str, Any]
"""An entry of a fleet file."""


# --- written -----------------------------------------------------------------------------------------


def save_flavors(connection: Connection, wanted: Mapping[str, Flavor], now: datetime) -> SavedSection:
    """Make flavors and their extra specs what a file says, found by name; the keys of the result are names."""
    stored = _FLAVORS.read(connection, "name", wanted)
    rows = {
        (name,): flavor_row(name, flavor, stored.get((name,), {}).get("flavorid")) for name, flavor in wanted.items()
    }
    check_owners(connection, flavors.c.flavorid, flavors.c.name, rows, "flavor")
    saved = _FLAVORS.apply(connection, stored, rows, lambda row: f"flavor {row['name']}", now)
    ids = read_ids(connection, flavors.c.name, stored, saved)
    specs = {(ids[name], key): {"value": each} for name, of in wanted.items() for key, each in of.extra_specs.items()}
    parts = _EXTRA_SPECS.replace(
        connection, "flavor_id", ids.values(), specs, lambda row: f"flavor extra specs: {row['key']!r:.60}"
    )
    return summarise(ids, saved, parts)


def save_images(connection: Connection, wanted: Mapping[str, Image], now: datetime) -> SavedSection:
    """Make images what a file says, found by id, or one without an id by its name; the result's keys are ids."""
    ids = _identities(connection, images, "id", "image", {name: image.id for name, image in wanted.items()})
    rows = {(ids[name],): image_row(name, image) for name, image in wanted.items()}
    saved = _IMAGES.replace(connection, "id", ids.values(), rows, lambda row: f"image {row['name']}", now)
    return summarise({key: key for key in ids.values()}, saved)


def save_groups(connection: Connection, wanted: Mapping[str, ServerGroup], now: datetime) -> SavedSection:
    """Make server groups and their members what a file says; the result's keys are uuids.

    A group is found by uuid, or one without a uuid by its name. Locks the groups, which come before the nodes.
    """
    given = {name: group.uuid for name, group in wanted.items()}
    uuids = _identities(connection, server_groups, "uuid", "server group", given)
    stored = _GROUPS.read(connection, "uuid", uuids.values())
    numbers = [row["id"] for row in stored.values()]
    list(rows_where(connection, select(server_groups.c.id).with_for_update(), server_groups.c.id, numbers))
    rows = {(uuids[name],): group_row(name, group) for name, group in wanted.items()}
    saved = _GROUPS.apply(connection, stored, rows, lambda row: f"server group {row['name']}", now)
    ids = read_ids(connection, server_groups.c.uuid, stored, saved)
    members: KeyedRows = {(ids[uuids[name]], each): {} for name, group in wanted.items() for each in group.members}
    parts = _MEMBERS.replace(
        connection, "group_id", ids.values(), members, lambda row: f"server group members: {row['server_uuid']!r:.60}"
    )
    return summarise(ids, saved, parts)


def read_ids(connection: Connection, key: Column[Any], stored: KeyedRows, saved: ReconcileResult) -> dict[str, int]:
    """Key -> the number of its row, for stored rows and for those that were new."""
    ids = {name: row["id"] for (name,), row in stored.items()}
    new = rows_where(connection, select(key, key.table.c.id), key, [name for (name,) in saved.new])
    return ids | {row[0]: row.id for row in new}


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


def check_owners(connection: Connection, unique: Column[Any], key: Column[Any], rows: KeyedRows, kind: str) -> None:
    """BadInput where two things of a kind, by file and store together, have one value in a unique column.

    `rows`: the wanted ones, by `key`.
    """
    wanted = {row[unique.name] for row in rows.values()}
    found = rows_where(connection, select(unique, key), unique, wanted)
    owners = {value: name for value, name in found if (name,) not in rows}
    for (name,), row in rows.items():
        if (other := owners.setdefault(row[unique.name], name)) != name:
            raise BadInput(
                f"{kind} {name}: {other} has {unique.name} {row[unique.name]} already", "give each its own"
            )


# --- read --------------------------------------------------------------------------------------------


def read_group(engine: Engine, uuid: str) -> ServerGroup | None:
    """The group with this uuid and its members, without their hosts; None where there is none."""
    with database_errors(engine), engine.connect() as connection:
        row = connection.execute(select(server_groups).where(server_groups.c.uuid == uuid)).one_or_none()
        if row is None:
            return None
        listed = select(server_group_members.c.server_uuid).where(server_group_members.c.group_id == row.id)
        members = tuple(sorted(connection.scalars(listed)))
    rules = {} if row.max_server_per_host is None else {"max_server_per_host": row.max_server_per_host}
    return ServerGroup(row.policy, row.name, row.uuid, members, rules=rules)


def read_flavor_entries(connection: Connection) -> Iterator[Entry]:
    """All flavors as a fleet file has them, in the order of their numbers."""
    specs: dict[int, dict[str, str]] = defaultdict(dict)
    for number, key, value in connection.execute(select(flavor_extra_specs).order_by(flavor_extra_specs.c.key)):
        specs[number][key] = value
    for row in _rows(connection, flavors):
        yield flavor_entry(row, specs[row["id"]])


def read_image_entries(connection: Connection) -> Iterator[Entry]:
    """All images as a fleet file has them, in the order of their ids."""
    for row in _with_names_once(_rows(connection, images)):
        yield image_entry(row, row["id"] != derived_uuid("image", row["name"]))


def read_group_entries(connection: Connection) -> Iterator[Entry]:
    """All server groups as a fleet file has them, in the order of their numbers."""
    members: dict[int, list[str]] = defaultdict(list)
    table = server_group_members.c
    for number, uuid in connection.execute(select(table.group_id, table.server_uuid).order_by(table.server_uuid)):
        members[number].append(uuid)
    for row in _with_names_once(_rows(connection, server_groups)):
        yield group_entry(row, members[row["id"]], row["uuid"] != derived_uuid("server group", row["name"]))


def _rows(connection: Connection, table: Table) -> Iterator[Entry]:
    for row in connection.execute(select(table).order_by(table.c.id)):
        yield dict(row._mapping)


def _with_names_once(rows: Iterable[Entry]) -> Iterator[Entry]:
    """The rows, without the name of a later one where it repeats: names in a file are unique."""
    seen: set[str] = set()
    for row in rows:
        yield row | ({"name": ""} if row["name"] in seen else {})
        seen.add(row["name"])
