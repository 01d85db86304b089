# SPDX-License-Identifier: Apache-2.0
"""Flavors, images and server groups in the database, each with the rows of other tables that belong to it.

Every section of a fleet file is saved in the same steps: read the stored rows, compute the wanted ones, check that
unique values are unique, reconcile. Functions named `..._row` and `..._entry` are pure: to a row, and to an entry of
a fleet file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Engine, Table, or_, select, true

from roost.errors import MOST_COMPARED, BadInput, UnknownName, nearest
from roost.model import Flavor, Image, ServerGroup
from roost.model.image import ImageProperties
from roost.model.image_property_values import CONVERTERS_PER_NODE
from roost.model.json_records import to_json
from roost.model.resources import MEMORY_MB, VCPU, requested_amounts
from roost.model.uuids import canonical_uuid
from roost.records.import_summary import SavedSection, summarise
from roost.records.node_rows import derived_uuid, json_text
from roost.store.reconcile import KeyedRows, Reconciler, ReconcileResult
from roost.store.schema.servers import flavor_extra_specs, flavors, images, server_group_members, server_groups
from roost.store.statements import Row, read_rows
from roost.store.transactions import by_index, database_errors

_FLAVOR_SIZES = ("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap")
_IMAGE_FIELDS = ("disk_format", "container_format", "status", "min_ram", "min_disk", "size")


def flavor_row(name: str, flavor: Flavor, flavorid: str | None) -> Row:
    """The row of `flavors`, without its name. `flavorid`: the stored one, used if the flavor itself gives none."""
    return {
        "flavorid": flavor.flavorid or flavorid or name,
        **{size: getattr(flavor, size) for size in _FLAVOR_SIZES},
    }


def flavor_entry(row: Mapping[str, Any], extra_specs: Mapping[str, str]) -> dict[str, Any]:
    """A flavor as an entry of a fleet file. Its id is the row id, by which instances refer to it."""
    entry = {"name": row["name"], "id": row["id"], "vcpus": row["vcpus"], "memory_mb": row["memory_mb"]}
    if row["flavorid"] != row["name"]:
        entry["flavorid"] = row["flavorid"]
    entry |= {size: row[size] for size in _FLAVOR_SIZES[2:] if row[size]}
    return entry | ({"extra_specs": dict(extra_specs)} if extra_specs else {})


def image_row(name: str, image: Image) -> Row:
    """The row of `images`, without its id."""
    fields = {each: getattr(image, each) for each in _IMAGE_FIELDS}
    return {"name": name, "properties": json_text(raw_properties(image.properties)), **fields}


def image_entry(row: Mapping[str, Any], has_own_id: bool) -> dict[str, Any]:
    """An image as an entry of a fleet file. `has_own_id`: the id is not derived from the name, and is included."""
    entry = {"name": row["name"]} | ({"id": row["id"]} if has_own_id else {})
    entry |= {each: row[each] for each in _IMAGE_FIELDS if row[each]}
    return entry | ({"properties": row["properties"]} if row["properties"] else {})


def raw_properties(properties: ImageProperties) -> dict[str, Any]:
    """Image properties as a file has them: those per NUMA node have the number of the node appended to the name."""
    found: dict[str, Any] = {}
    for name, value in properties.items():
        if name in CONVERTERS_PER_NODE:
            found |= {f"{name}.{at}": _node_value(each) for at, each in enumerate(value)}
        else:
            found[name] = to_json(value)
    return found


def _node_value(value: Any) -> Any:
    return ",".join(map(str, sorted(value))) if isinstance(value, frozenset) else value


def group_row(name: str, group: ServerGroup) -> Row:
    """The row of `server_groups`, without its uuid. Hosts are not stored: they follow from the members."""
    limit = group.rules.get("max_server_per_host")
    return {"name": name, "policy": group.policy, "max_server_per_host": limit}


def group_entry(row: Mapping[str, Any], members: list[str], has_own_uuid: bool) -> dict[str, Any]:
    """A server group as an entry of a fleet file. `has_own_uuid`: the uuid is not derived from the name: included."""
    entry = {"name": row["name"], "policy": row["policy"]} | ({"uuid": row["uuid"]} if has_own_uuid else {})
    if row["max_server_per_host"] is not None:
        entry["rules"] = {"max_server_per_host": row["max_server_per_host"]}
    return entry | ({"members": members} if members else {})


_FLAVOR_ROWS = Reconciler(flavors, ("name",))
EXTRA_SPEC_ROWS = Reconciler(flavor_extra_specs, ("flavor_id", "key"))
_IMAGE_ROWS = Reconciler(images, ("id",))
_GROUP_ROWS = Reconciler(server_groups, ("uuid",))
_MEMBER_ROWS = Reconciler(server_group_members, ("group_id", "server_uuid"))

Entry = dict[str, Any]
"""An entry of a fleet file."""


# --- write -------------------------------------------------------------------------------------------


def save_flavors(connection: Connection, wanted: Mapping[str, Flavor], now: datetime) -> SavedSection:
    """Make flavors, matched by name, and their extra specs equal to the wanted ones; the result's keys are names."""
    stored = _FLAVOR_ROWS.read(connection, "name", wanted)
    rows = {
        (name,): flavor_row(name, flavor, stored.get((name,), {}).get("flavorid")) for name, flavor in wanted.items()
    }
    check_owners(connection, flavors.c.flavorid, flavors.c.name, rows, "flavor")
    saved = _FLAVOR_ROWS.apply(connection, stored, rows, lambda row: f"flavor {row['name']}", now)
    ids = read_ids(connection, flavors.c.name, stored, saved)
    specs = {(ids[name], key): {"value": each} for name, of in wanted.items() for key, each in of.extra_specs.items()}
    parts = EXTRA_SPEC_ROWS.replace(
        connection, "flavor_id", ids.values(), specs, lambda row: f"flavor extra specs: {row['key']!r:.60}"
    )
    return summarise(ids, saved, parts)


def save_images(connection: Connection, wanted: Mapping[str, Image], now: datetime) -> SavedSection:
    """Make images, matched by id or else by name, equal to the wanted ones; the result's keys are ids."""
    ids = _resolve_ids(connection, images, "id", "image", {name: image.id for name, image in wanted.items()})
    rows = {(ids[name],): image_row(name, image) for name, image in wanted.items()}
    saved = _IMAGE_ROWS.replace(connection, "id", ids.values(), rows, lambda row: f"image {row['name']}", now)
    return summarise({key: key for key in ids.values()}, saved)


def save_groups(connection: Connection, wanted: Mapping[str, ServerGroup], now: datetime) -> SavedSection:
    """Make server groups and their members equal to the wanted ones; the result's keys are uuids.

    Groups are matched by uuid, or by name if they have none. Locks them: in the ledger's order groups precede nodes.
    """
    given = {name: group.uuid for name, group in wanted.items()}
    uuids = _resolve_ids(connection, server_groups, "uuid", "server group", given)
    stored = _GROUP_ROWS.read(connection, "uuid", uuids.values())
    row_ids = [row["id"] for row in stored.values()]
    lock = by_index(select(server_groups.c.id).with_for_update(), server_groups)
    list(read_rows(connection, lock, server_groups.c.id, row_ids))
    rows = {(uuids[name],): group_row(name, group) for name, group in wanted.items()}
    saved = _GROUP_ROWS.apply(connection, stored, rows, lambda row: f"server group {row['name']}", now)
    ids = read_ids(connection, server_groups.c.uuid, stored, saved)
    members: KeyedRows = {(ids[uuids[name]], each): {} for name, group in wanted.items() for each in group.members}
    parts = _MEMBER_ROWS.replace(
        connection, "group_id", ids.values(), members, lambda row: f"server group members: {row['server_uuid']!r:.60}"
    )
    return summarise(ids, saved, parts)


def read_ids(connection: Connection, key: Column[Any], stored: KeyedRows, saved: ReconcileResult) -> dict[str, int]:
    """Key -> row id, for rows that were stored and for those that were inserted."""
    ids = {name: row["id"] for (name,), row in stored.items()}
    new = read_rows(connection, select(key, key.table.c.id), key, [name for (name,) in saved.new])
    return ids | {row[0]: row.id for row in new}


def _resolve_ids(
    connection: Connection, table: Table, key: str, kind: str, given: Mapping[str, str | None]
) -> dict[str, str]:
    """Name -> id: the given one, else that of the stored row of this name, else one derived from the name.

    BadInput if the file and the database disagree, or the name is ambiguous.
    """
    by_name: dict[str, list[str]] = defaultdict(list)
    for stored_id, name in read_rows(connection, select(table.c[key], table.c.name), table.c.name, given):
        by_name[name].append(stored_id)
    found: dict[str, str] = {}
    owners: dict[str, str] = {}
    for name, own in given.items():
        stored = by_name.get(name, [])
        if own and stored and own not in stored:
            raise BadInput(f"{kind} {name}: the store has one of that name with {key} {stored[0]}", f"not {own}")
        if not own and len(stored) > 1:
            raise BadInput(f"{kind} {name}: the store has {len(stored)} of that name", f"give its {key}")
        found[name] = own or (stored[0] if stored else derived_uuid(kind, name))
        if (other := owners.setdefault(found[name], name)) != name:
            raise BadInput(f"{kind} {name}: {other} has {key} {found[name]} too", "give each its own")
    return found


def check_owners(connection: Connection, unique: Column[Any], key: Column[Any], rows: KeyedRows, kind: str) -> None:
    """BadInput if two wanted rows, or a wanted and another stored row, have the same value in a unique column.

    `rows`: the wanted rows, by `key`. `kind`: what the rows are called in the error.
    """
    wanted = {row[unique.name] for row in rows.values()}
    found = read_rows(connection, select(unique, key), unique, wanted)
    owners = {value: name for value, name in found if (name,) not in rows}
    for (name,), row in rows.items():
        if (other := owners.setdefault(row[unique.name], name)) != name:
            raise BadInput(
                f"{kind} {name}: {other} has {unique.name} {row[unique.name]} already", "give each its own"
            )


# --- read --------------------------------------------------------------------------------------------


def read_group(engine: Engine, uuid: str) -> ServerGroup | None:
    """The group with this uuid and its members, without their hosts; None if it does not exist."""
    with database_errors(engine), engine.connect() as connection:
        row = connection.execute(
            select(server_groups).where(server_groups.c.uuid == canonical_uuid(uuid))
        ).one_or_none()
        if row is None:
            return None
        listed = select(server_group_members.c.server_uuid).where(server_group_members.c.group_id == row.id)
        members = tuple(sorted(connection.scalars(listed)))
    rules = {} if row.max_server_per_host is None else {"max_server_per_host": row.max_server_per_host}
    return ServerGroup(row.policy, row.name, row.uuid, members, rules=rules)


def find_group(engine: Engine, wanted: str, project_id: str | None = None) -> ServerGroup:
    """The group with this uuid, or with this name if only one has it; UnknownName otherwise.

    `project_id`: only its groups, and those of no project, which all share; None: those of all projects.
    """
    columns = server_groups.c
    is_own = or_(columns.project_id.is_(None), columns.project_id == project_id)
    is_visible = true() if project_id is None else is_own
    with database_errors(engine), engine.connect() as connection:
        own = select(columns.uuid).where(columns.uuid == canonical_uuid(wanted), is_visible)
        named = select(columns.uuid).where(columns.name == wanted, is_visible).limit(2)
        uuids = connection.scalars(own).all() or connection.scalars(named).all()
        names = select(columns.name).where(is_visible).limit(MOST_COMPARED)
        known = connection.scalars(names).all() if not uuids else ()
    if len(uuids) > 1:
        raise UnknownName(f"group: several are named {wanted[:60]!r}", "give the uuid")
    found = read_group(engine, uuids[0]) if uuids else None
    if found is None:
        raise UnknownName(f"group: there is no {wanted[:60]!r}", nearest(wanted, known))
    return found


def read_flavors(engine: Engine, only_public: bool = False) -> list[Flavor]:
    """All flavors, or the public ones, with their flavorid, ordered by row id."""
    wanted = [flavors.c.is_public.is_(true())] if only_public else []
    with database_errors(engine), engine.connect() as connection:
        entries = list(read_flavor_entries(connection, *wanted))
    return [Flavor(**{"flavorid": entry["name"], **entry}) for entry in entries]


def read_images(engine: Engine, project_id: str | None = None) -> list[Image]:
    """All images, or those that a member of a project may use, with their ids, ordered by id."""
    wanted = [] if project_id is None else [_is_usable_image(project_id)]
    with database_errors(engine), engine.connect() as connection:
        return [
            Image(**{**image_entry(row, has_own_id=False), "id": row["id"]})
            for row in _read_table(connection, images, *wanted)
        ]


def _is_usable_image(project_id: str) -> ColumnElement[bool]:
    """The condition that a member of this project may use an image: its own, and those shown to all."""
    return or_(images.c.visibility.in_(("public", "community")), images.c.owner == project_id)


class FlavorCatalogue:
    """The flavors in the database, by row id; read when the first one is looked up."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._found: dict[Any, tuple[Flavor, Mapping[str, int]]] | None = None

    def find(self, flavor_id: Any, amounts: Mapping[str, int]) -> Flavor | None:
        """The flavor of an instance; None if it is not in the catalogue.

        `amounts`: what the instance claimed. A flavor of another size is not its own, whatever the id: requests of
        nova have nova's ids, which are not those of the catalogue.
        """
        if self._found is None:
            flavors = [Flavor(**entry) for entry in read_flavor_entries(self._connection)]
            self._found = {each.id: (each, requested_amounts(each)) for each in flavors}
        flavor, needs = self._found.get(flavor_id, (None, amounts))
        is_same_size = all(amounts.get(name, needs.get(name)) == needs.get(name) for name in (VCPU, MEMORY_MB))
        return flavor if is_same_size else None


def read_flavor_entries(connection: Connection, *wanted: ColumnElement[bool]) -> Iterator[Entry]:
    """The flavors for which all conditions hold, as entries of a fleet file, ordered by row id."""
    specs: dict[int, dict[str, str]] = defaultdict(dict)
    for flavor_id, key, value in connection.execute(select(flavor_extra_specs).order_by(flavor_extra_specs.c.key)):
        specs[flavor_id][key] = value
    for row in _read_table(connection, flavors, *wanted):
        yield flavor_entry(row, specs[row["id"]])


def read_image_entries(connection: Connection) -> Iterator[Entry]:
    """All images as entries of a fleet file, ordered by id."""
    for row in _with_names_once(_read_table(connection, images)):
        yield image_entry(row, row["id"] != derived_uuid("image", row["name"]))


def read_group_entries(connection: Connection) -> Iterator[Entry]:
    """All server groups as entries of a fleet file, ordered by row id."""
    members: dict[int, list[str]] = defaultdict(list)
    table = server_group_members.c
    for group_id, uuid in connection.execute(select(table.group_id, table.server_uuid).order_by(table.server_uuid)):
        members[group_id].append(uuid)
    for row in _with_names_once(_read_table(connection, server_groups)):
        yield group_entry(row, members[row["id"]], row["uuid"] != derived_uuid("server group", row["name"]))


def _read_table(connection: Connection, table: Table, *wanted: ColumnElement[bool]) -> Iterator[Entry]:
    for row in connection.execute(select(table).where(*wanted).order_by(table.c.id)):
        yield dict(row._mapping)


def _with_names_once(rows: Iterable[Entry]) -> Iterator[Entry]:
    """The rows; a name that occurred before is replaced by an empty one, because names in a file are unique."""
    seen: set[str] = set()
    for row in rows:
        yield row | ({"name": ""} if row["name"] in seen else {})
        seen.add(row["name"])
