# SPDX-License-Identifier: Apache-2.0
"""Images as clients of the API see and change them: no data, only what rules and clients read.

Properties are stored as a client wrote them, because it expects them back; the known ones are checked as in a fleet
file, and converted when a request is made of them.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field
from datetime import datetime
from itertools import islice
from typing import Annotated, Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Engine, and_, delete, func, insert, not_, or_, select, update

from roost.errors import Conflict, UnknownName
from roost.model.fields import PLAIN_MAPPING, Amount, Checked, Label, OptionalAmount, OptionalText
from roost.model.image import parse_properties
from roost.model.kinds import Kind, OneOf, Schema
from roost.store.columns import check_rows
from roost.store.pages import WHOLE_LIST, Page, PagedTable
from roost.store.schema.servers import images
from roost.store.statements import column_in
from roost.store.store_clock import PresentTime, stamp_of
from roost.store.transactions import database_errors, write

PUBLIC, COMMUNITY = "public", "community"
ACTIVE = "active"
VISIBILITIES = (PUBLIC, COMMUNITY, "shared", "private")
"""Seen by all in lists, by all by its id, and, twice, by its project alone: members that share it do not exist."""


class StoredProperties(Kind[dict[str, Any]]):
    """The kind of image properties that are stored as they are written, if those that are known have valid values."""

    def strict(self, value: Any, field: str) -> dict[str, Any]:
        """A copy of the properties; error paths begin with `properties`."""
        parse_properties(value)
        return dict(PLAIN_MAPPING.strict(value, field))

    @property
    def schema(self) -> Schema:
        """An object; unknown properties are allowed."""
        return {"type": "object"}


@dataclass(frozen=True)
class NewImage(Checked):
    """An image that a client creates."""

    name: Label = ""
    properties: Annotated[Mapping[str, Any], StoredProperties()] = field(default_factory=dict)
    id: OptionalText = None
    """None: a new uuid."""
    min_ram: Amount = 0
    """Least memory of a flavor for this image, MiB."""
    min_disk: Amount = 0
    """Least root disk of a flavor for this image, GiB."""
    visibility: Annotated[str, OneOf(VISIBILITIES, "is no visibility", f"one of {', '.join(VISIBILITIES)}")] = PUBLIC
    owner: OptionalText = None
    """Its project; None: an administrator's."""
    disk_format: OptionalText = None
    container_format: OptionalText = None
    size: OptionalAmount = None
    """Bytes; None if unknown."""
    status: OptionalText = ACTIVE


class ImageRecord(NamedTuple):
    """An image in the database, with everything that clients are shown of it."""

    id: str
    name: str
    properties: dict[str, Any]
    """As they were written; empty if it has none."""
    min_ram: int
    min_disk: int
    visibility: str
    owner: str | None
    disk_format: str | None
    container_format: str | None
    size: int | None
    status: str | None
    created_at: datetime | None
    updated_at: datetime | None

    def text_of(self, name: str) -> str | None:
        """A property as text, as clients are shown all of them; fleet files may have numbers and lists."""
        value = self.properties.get(name)
        return value if isinstance(value, str) or value is None else str(value)


class Range(NamedTuple):
    """Bounds of a number or a time; without a value nothing is within them."""

    least: Any = None
    below: Any = None
    is_excluded: bool = False
    """Only what is outside of the bounds."""


@dataclass(frozen=True)
class ImageFilters:
    """Which images a client wants to see: those that pass all of these."""

    values: Mapping[str, Collection[Any]] = field(default_factory=dict)
    """Name of a field -> values, one of which it has."""
    ranges: Mapping[str, Range] = field(default_factory=dict)
    """Name of a field -> between which bounds it is."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Name of a property -> the value that it has."""
    project_id: str | None = None
    """Only what a member of this project sees: its own images and public ones; those of communities by request."""


ALL_IMAGES = ImageFilters()

_COLUMNS = tuple(images.c[name] for name in ImageRecord._fields)
_SELECT = select(*_COLUMNS)
_SHOWN = {each.name: each for each in _COLUMNS if each.name != "properties"} | {
    "status": func.coalesce(images.c.status, ACTIVE),
    "updated_at": func.coalesce(images.c.updated_at, images.c.created_at),
}
"""Name of a field -> its value as clients are shown it."""
_PAGED = PagedTable(images.c.id, images.c.id, _SHOWN)
ROWS_AT_ONCE = 200
"""Images that are held in memory while those with certain properties are looked for."""


# --- write -------------------------------------------------------------------------------------------


def create_image(engine: Engine, wanted: NewImage, now: PresentTime) -> ImageRecord:
    """Insert an image. Conflict if another one has its id; names need not be unique."""
    row = _row(wanted) | {"id": wanted.id or str(uuid.uuid4())}

    def insert_one(connection: Connection) -> ImageRecord:
        if connection.scalar(select(images.c.id).where(images.c.id == row["id"])) is not None:
            raise Conflict(f"Image ID {row['id']} already exists!")
        connection.execute(insert(images).values(**row, created_at=stamp_of(now)))
        return _find(connection, row["id"])

    return write(engine, insert_one)


def update_image(
    engine: Engine,
    image_id: str,
    now: PresentTime,
    fields: Mapping[str, Any] | None = None,
    properties: Mapping[str, Any] | None = None,
    check: Callable[[ImageRecord], object] = lambda stored: None,
) -> ImageRecord:
    """Change an image: `fields` of NewImage are replaced; `properties` are set one by one, and removed by None.

    UnknownName if there is no such image, FieldError for a value that its field does not accept. `check`: raises if
    the stored image, which nobody else can change meanwhile, may not be changed so.
    """

    def update_one(connection: Connection) -> ImageRecord:
        stored = _find(connection, image_id, is_locked=True)
        check(stored)
        merged = stored.properties | dict(properties or {})
        own = {name: getattr(stored, name) for name in NewImage.__dataclass_fields__} | dict(fields or {})
        kept = {name: value for name, value in merged.items() if value is not None}
        row = _row(NewImage(**own | {"properties": kept, "id": image_id}))
        connection.execute(update(images).where(images.c.id == image_id).values(**row, updated_at=stamp_of(now)))
        return _find(connection, image_id)

    return write(engine, update_one)


def delete_image(engine: Engine, image_id: str) -> None:
    """Delete an image; servers that were built of it stay. UnknownName if there is no such image."""

    def delete_one(connection: Connection) -> None:
        if not connection.execute(delete(images).where(images.c.id == image_id)).rowcount:
            raise _unknown(image_id)

    write(engine, delete_one)


def _row(image: NewImage) -> dict[str, Any]:
    """The row of `images`; BadInput for a value that does not fit its column."""
    row = asdict(image)
    check_rows(images, tuple(row), [tuple(row.values())], lambda _: "image")
    return row | {"properties": row["properties"] or None}


def _unknown(image_id: str) -> UnknownName:
    return UnknownName(f"No image found with ID {image_id}")


# --- read --------------------------------------------------------------------------------------------


def get_image(engine: Engine, image_id: str, project_id: str | None = None) -> ImageRecord:
    """The image with this id; UnknownName if there is none.

    `project_id`: also if a member of this project may not see it; None: all are visible.
    """
    with database_errors(engine), engine.connect() as connection:
        found = _find(connection, image_id)
    if project_id not in (None, found.owner) and found.visibility not in (PUBLIC, COMMUNITY):
        raise _unknown(image_id)
    return found


def list_images(engine: Engine, wanted: ImageFilters = ALL_IMAGES, page: Page = WHOLE_LIST) -> list[ImageRecord]:
    """A page of the images that fit the filters, by id; markers are ids."""
    with database_errors(engine), engine.connect() as connection:
        chosen = _SELECT.where(*_conditions(connection, wanted))
        if not wanted.properties:
            return [_record(row) for row in connection.execute(_PAGED.cut(connection, chosen, page))]
        every = _PAGED.cut(connection, chosen, page._replace(limit=None))
        with closing(connection.execute(every, execution_options={"yield_per": ROWS_AT_ONCE})) as rows:
            fitting = (found for row in rows if _has_properties(found := _record(row), wanted.properties))
            return list(islice(fitting, page.limit))


def _conditions(connection: Connection, wanted: ImageFilters) -> Iterable[ColumnElement[bool]]:
    for name, values in wanted.values.items():
        yield column_in(connection, _SHOWN[name], values)
    for name, bounds in wanted.ranges.items():
        yield _is_within(_SHOWN[name], bounds)
    if wanted.project_id is not None:
        of_others = {PUBLIC, COMMUNITY} & {PUBLIC, *wanted.values.get("visibility", ())}
        yield or_(images.c.visibility.in_(sorted(of_others)), images.c.owner == wanted.project_id)


def _is_within(column: ColumnElement[Any], bounds: Range) -> ColumnElement[bool]:
    above = [] if bounds.least is None else [column >= bounds.least]
    within = and_(*above, *([] if bounds.below is None else [column < bounds.below]))
    return not_(within) if bounds.is_excluded else within


def _has_properties(image: ImageRecord, wanted: Mapping[str, str]) -> bool:
    return all(image.text_of(name) == value for name, value in wanted.items())


def _find(connection: Connection, image_id: str, is_locked: bool = False) -> ImageRecord:
    """The image with this id, locked on request until the transaction ends."""
    wanted = _SELECT.where(images.c.id == image_id)
    row = connection.execute(wanted.with_for_update() if is_locked else wanted).first()
    if row is None:
        raise _unknown(image_id)
    return _record(row)


def _record(row: Any) -> ImageRecord:
    return ImageRecord._make(row)._replace(properties=row.properties or {})
