# SPDX-License-Identifier: Apache-2.0
"""Flavors as clients of the API see and change them; the import of fleet files is in `catalogue.py`."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, NamedTuple

from sqlalchemy import Connection, Engine, Select, delete, func, insert, or_, select, update

from roost.errors import Conflict, UnknownName
from roost.model.fields import TEXT_MAPPING, Amount, Checked, Flag, OptionalText, Text
from roost.model.kinds import Number
from roost.records.catalogue import EXTRA_SPEC_ROWS
from roost.store.columns import check_rows
from roost.store.pages import WHOLE_LIST, Page, PagedTable
from roost.store.reconcile import KeyedRows
from roost.store.schema.servers import flavor_extra_specs, flavors
from roost.store.store_clock import PresentTime, stamp_of
from roost.store.transactions import database_errors, write


@dataclass(frozen=True)
class NewFlavor(Checked):
    """A flavor that a client creates."""

    name: Text
    vcpus: Amount
    memory_mb: Amount
    root_gb: Amount = 0
    ephemeral_gb: Amount = 0
    swap: Amount = 0
    """MiB, nova's unit."""
    flavorid: OptionalText = None
    """None: a new uuid."""
    is_public: Flag = True
    rxtx_factor: Annotated[float, Number(least=0)] = 1.0
    description: OptionalText = None


class FlavorRecord(NamedTuple):
    """A flavor in the database, with everything that clients are shown of it."""

    id: int
    """Row id, by which imported instances refer to it; clients know it by its `flavorid`."""
    flavorid: str
    name: str
    vcpus: int
    memory_mb: int
    root_gb: int
    ephemeral_gb: int
    swap: int
    """MiB, nova's unit."""
    is_public: bool
    disabled: bool
    description: str | None
    rxtx_factor: float
    extra_specs: dict[str, str]


class FlavorFilters(NamedTuple):
    """Which flavors a client wants to see; None: without regard to it."""

    is_public: bool | None = None
    least_memory_mb: int | None = None
    least_root_gb: int | None = None
    name: str | None = None


ALL_FLAVORS = FlavorFilters()

_COLUMNS = tuple(flavors.c[name] for name in FlavorRecord._fields if name != "extra_specs")
_SELECT = select(*_COLUMNS)
_PAGED = PagedTable(
    flavors.c.flavorid,
    flavors.c.id,
    {each.name: each for each in (flavors.c.flavorid, *_COLUMNS) if each.name != "description"}
    | {"updated_at": func.coalesce(flavors.c.updated_at, flavors.c.created_at)},
)


# --- write -------------------------------------------------------------------------------------------


def create_flavor(engine: Engine, wanted: NewFlavor, now: PresentTime) -> FlavorRecord:
    """Insert a flavor without extra specs. Conflict if another one has its name or id."""
    row = asdict(wanted) | {"flavorid": wanted.flavorid or str(uuid.uuid4())}
    check_rows(flavors, tuple(row), [tuple(row.values())], lambda _: "flavor")

    def insert_one(connection: Connection) -> FlavorRecord:
        _refuse_taken(connection, row)
        connection.execute(insert(flavors).values(**row, created_at=stamp_of(now)))
        return _find(connection, row["flavorid"])

    return write(engine, insert_one)


def _refuse_taken(connection: Connection, row: Mapping[str, Any]) -> None:
    is_taken = or_(flavors.c.flavorid == row["flavorid"], flavors.c.name == row["name"])
    for flavorid, _ in connection.execute(select(flavors.c.flavorid, flavors.c.name).where(is_taken)):
        if flavorid == row["flavorid"]:
            raise Conflict(f"Flavor with ID {flavorid} already exists.")
        raise Conflict(f"Flavor with name {row['name']} already exists.")


def update_flavor_description(
    engine: Engine, flavorid: str, description: str | None, now: PresentTime
) -> FlavorRecord:
    """Replace the description of a flavor; None removes it. UnknownName if there is no such flavor."""
    check_rows(flavors, ("description",), [(description,)], lambda _: "flavor")

    def update_one(connection: Connection) -> FlavorRecord:
        values = {"description": description, "updated_at": stamp_of(now)}
        connection.execute(update(flavors).where(flavors.c.flavorid == flavorid).values(values))
        return _find(connection, flavorid)

    return write(engine, update_one)


def delete_flavor(engine: Engine, flavorid: str) -> None:
    """Delete a flavor with its extra specs; servers keep theirs. UnknownName if there is no such flavor."""

    def delete_one(connection: Connection) -> None:
        if not connection.execute(delete(flavors).where(flavors.c.flavorid == flavorid)).rowcount:
            raise _unknown(flavorid)

    write(engine, delete_one)


def merge_extra_specs(engine: Engine, flavorid: str, specs: Mapping[str, str]) -> None:
    """Set these extra specs of a flavor and leave its others. UnknownName if there is no such flavor."""
    texts = TEXT_MAPPING.strict(specs, "extra_specs")

    def merge(connection: Connection) -> None:
        flavor_id = _lock(connection, flavorid)
        wanted: KeyedRows = {(flavor_id, key): {"value": value} for key, value in texts.items()}
        stored = EXTRA_SPEC_ROWS.read(connection, "flavor_id", [flavor_id])
        same_keys = {key: row for key, row in stored.items() if key in wanted}
        EXTRA_SPEC_ROWS.apply(connection, same_keys, wanted, lambda row: f"extra spec {row['key']!r:.60}")

    write(engine, merge)


def delete_extra_spec(engine: Engine, flavorid: str, key: str) -> None:
    """Delete one extra spec of a flavor. UnknownName if there is no such flavor, or it has no such extra spec."""

    def delete_one(connection: Connection) -> None:
        spec = flavor_extra_specs.c
        is_it = (spec.flavor_id == _lock(connection, flavorid)) & (spec.key == key)
        if not connection.execute(delete(flavor_extra_specs).where(is_it)).rowcount:
            raise UnknownName(f"Flavor {flavorid} has no extra specs with key {key}.")

    write(engine, delete_one)


def _lock(connection: Connection, flavorid: str) -> int:
    """The row id of a flavor, locked until the transaction ends."""
    wanted = select(flavors.c.id).where(flavors.c.flavorid == flavorid).with_for_update()
    flavor_id: int | None = connection.scalar(wanted)
    if flavor_id is None:
        raise _unknown(flavorid)
    return flavor_id


def _unknown(flavorid: str) -> UnknownName:
    return UnknownName(f"Flavor {flavorid} could not be found.")


# --- read --------------------------------------------------------------------------------------------


def get_flavor(engine: Engine, flavorid: str) -> FlavorRecord:
    """The flavor with this flavorid; UnknownName if there is none."""
    with database_errors(engine), engine.connect() as connection:
        return _find(connection, flavorid)


def list_flavors(engine: Engine, wanted: FlavorFilters = ALL_FLAVORS, page: Page = WHOLE_LIST) -> list[FlavorRecord]:
    """A page of the flavors that fit the filters, by flavorid; markers are flavorids."""
    with database_errors(engine), engine.connect() as connection:
        return _read(connection, _PAGED.cut(connection, _SELECT.where(*_conditions(wanted)), page))


def _conditions(wanted: FlavorFilters) -> Iterable[Any]:
    if wanted.is_public is not None:
        yield flavors.c.is_public.is_(wanted.is_public)
    if wanted.least_memory_mb is not None:
        yield flavors.c.memory_mb >= wanted.least_memory_mb
    if wanted.least_root_gb is not None:
        yield flavors.c.root_gb >= wanted.least_root_gb
    if wanted.name is not None:
        yield flavors.c.name == wanted.name


def _find(connection: Connection, flavorid: str) -> FlavorRecord:
    found = _read(connection, _SELECT.where(flavors.c.flavorid == flavorid))
    if not found:
        raise _unknown(flavorid)
    return found[0]


def _read(connection: Connection, wanted: Select[Any]) -> list[FlavorRecord]:
    """The flavors that a SELECT finds, in its order, in two statements."""
    rows = connection.execute(wanted).all()
    found = wanted.subquery()
    spec = flavor_extra_specs.c
    specs: dict[int, dict[str, str]] = defaultdict(dict)
    parts = select(spec.flavor_id, spec.key, spec.value).join(found, found.c.id == spec.flavor_id).order_by(spec.key)
    for flavor_id, key, value in connection.execute(parts):
        specs[flavor_id][key] = value
    return [FlavorRecord(**row._mapping, extra_specs=specs[row.id]) for row in rows]
