# SPDX-License-Identifier: Apache-2.0
"""Types of columns that mean the same on SQLite, PostgreSQL and MariaDB, checks of their values, and forms of tables.

Revisions use the types too, so a type never changes its meaning: a new meaning is a new type. Values are checked
before the database does: the error names the row, the value and a remedy. `json_text` and `json_number` are values
inside columns of JSON text, in the SQL of each database.
"""

from __future__ import annotations

import base64
import datetime
import json
import math
import zlib
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    DateTime,
    Double,
    ForeignKey,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    cast,
    func,
    text,
    type_coerce,
)
from sqlalchemy.dialects import mysql
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import TypeDecorator

from roost.errors import BadInput
from roost.model.kinds import shown

MARIADB = ("mysql", "mariadb")

ROW_NUMBER = BigInteger().with_variant(Integer(), "sqlite")
"""A generated key of 64 bits: SQLite generates keys only for the type INTEGER, which has 64 bits there."""

NAME = String(255)
"""A name, short enough for an index."""

UUID = String(36)
"""A uuid as its text."""

LONG_TEXT = Text().with_variant(mysql.LONGTEXT(), *MARIADB)
"""Text of any length: MariaDB's TEXT is limited to 64 KiB."""


def as_json_text(value: Any) -> str:
    """A JSON value as the text that a column of type `JsonText` stores."""
    return _COMPACT_ENCODER.encode(value)


_COMPACT_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


class JsonText(TypeDecorator[Any]):
    """Any JSON value, stored as text. Python's None is NULL."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Any) -> Any:
        """Long text on every database: JSON types of databases would change large numbers."""
        return dialect.type_descriptor(LONG_TEXT)

    def process_bind_param(self, value: Any, dialect: Any) -> str | None:
        """The value as ASCII text: a NUL, which PostgreSQL rejects, is escaped."""
        return None if value is None else as_json_text(value)

    def process_result_value(self, value: str | None, dialect: Any) -> Any:
        """The decoded value; None for NULL."""
        return None if value is None else json.loads(value)


FASTEST_COMPRESSION = 1
_LENIENT_ENCODER = json.JSONEncoder(separators=(",", ":"), default=str, check_circular=False)
"""Records must not be lost for a number that is not finite. The check for cycles would take a third of the time."""


class CompressedJson(TypeDecorator[Any]):
    """Any JSON value, stored as the base64 text of its compressed form. Python's None is NULL."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Any) -> Any:
        """Long text on every database, so that dumps and replication handle it as any other column."""
        return dialect.type_descriptor(LONG_TEXT)

    def process_bind_param(self, value: Any, dialect: Any) -> str | None:
        """The compressed value as text."""
        return None if value is None else compress_json(value)

    def process_result_value(self, value: str | None, dialect: Any) -> Any:
        """The decoded value; None for NULL."""
        return None if value is None else decompress_json(value)


def compress_json(value: Any) -> str:
    """A JSON value as the text that a column of type `CompressedJson` stores; other objects become texts."""
    text = _LENIENT_ENCODER.encode(value).encode("ascii")
    return base64.b64encode(zlib.compress(text, FASTEST_COMPRESSION)).decode("ascii")


def decompress_json(text: str) -> Any:
    """The JSON value of a text that `compress_json` made."""
    return json.loads(zlib.decompress(base64.b64decode(text)))


class UtcTime(TypeDecorator[datetime.datetime]):
    """A time with microseconds: an aware datetime in Python, UTC without a zone in the database."""

    impl = DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: Any) -> Any:
        """A type with microseconds: MariaDB drops fractions of a second by default."""
        kind = mysql.DATETIME(fsp=6) if dialect.name in MARIADB else DateTime()
        return dialect.type_descriptor(kind)

    def process_bind_param(self, value: datetime.datetime | None, dialect: Any) -> datetime.datetime | None:
        """The time in UTC, without a zone. ValueError for a naive datetime: its zone would be a guess."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value} has no time zone")
        return value.astimezone(datetime.UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime.datetime | None, dialect: Any) -> datetime.datetime | None:
        """The time as an aware datetime in UTC; None for NULL."""
        return None if value is None else value.replace(tzinfo=datetime.UTC)


LARGEST_BIGINT = 2**63 - 1
LARGEST_INTEGER = 2**31 - 1
_LONGEST_DESCRIPTION = 100
"""Characters of the description of a row in an error."""

Check = Callable[[Any], tuple[str, str] | None]
"""Check of a value: the problem and a remedy, or None if the value fits."""


def check_rows(
    table: Table, names: Sequence[str], rows: Iterable[Sequence[Any]], describe: Callable[[dict[str, Any]], str]
) -> None:
    """Raise BadInput for the first value that does not fit its column; NULL always fits.

    `names`: the columns, in the order of each row's values. `describe`: names a row, given as a dict, for the error.
    """
    checks = _checks_of(table, tuple(names))
    for row in rows:
        for at, check in checks:
            if (value := row[at]) is not None and (wrong := check(value)):
                problem, remedy = wrong
                described = _shorten(describe(dict(zip(names, row, strict=True))))
                raise BadInput(f"{described}: {names[at]}: {shown(value)} {problem}", remedy)


def fits(column: Column[Any], value: Any) -> bool:
    """Whether a value can be stored in the column, and so can be searched for there."""
    check = _check_of(column.type)
    return value is None or check is None or check(value) is None


def _shorten(description: str) -> str:
    """The start of a description: it may contain the value that is too long."""
    if len(description) <= _LONGEST_DESCRIPTION:
        return description
    return f"{description[:_LONGEST_DESCRIPTION]}..."


@lru_cache(maxsize=256)
def _checks_of(table: Table, names: tuple[str, ...]) -> list[tuple[int, Check]]:
    """Positions in a row with the check of the value there, in the order of the table's columns."""
    found = [(names.index(each.name), _check_of(each.type)) for each in table.columns if each.name in names]
    return [(at, check) for at, check in found if check is not None]


def _check_of(kind: Any) -> Check | None:
    if isinstance(kind, JsonText):  # takes any JSON value, encoded as ASCII
        return None
    if isinstance(kind, String):
        return _text_check(kind.length)
    if isinstance(kind, Integer):
        return _integer_check(LARGEST_BIGINT if isinstance(kind, BigInteger) else LARGEST_INTEGER)
    return _check_finite if isinstance(kind, Double) else None


def _text_check(length: int | None) -> Check:
    def check(value: str) -> tuple[str, str] | None:
        if length is not None and len(value) > length:
            return f"is {len(value)} characters long", f"at most {length} fit"
        if value.isascii() and "\0" not in value:
            return None
        if "\0" in value:
            return "has a NUL in it", "leave it out"
        if any("\ud800" <= each <= "\udfff" for each in value):
            return "has half a character in it", "write the whole one"
        return None

    return check


def _integer_check(most: int) -> Check:
    def check(value: int) -> tuple[str, str] | None:
        return None if -most - 1 <= value <= most else ("does not fit into the database", f"at most {most}")

    return check


def _check_finite(value: float) -> tuple[str, str] | None:
    return None if math.isfinite(value) else ("is no finite number", "write one")


def json_text(dialect: str, column: ColumnElement[Any], key: str) -> ColumnElement[Any]:
    """The text at a key of the object in a column of type `JsonText`; NULL where it has none.

    `key`: any text without a quotation mark or a backslash, which databases escape in different ways.
    """
    if '"' in key or "\\" in key:
        raise ValueError(f"{key!r} is no key that all databases know")
    stored = type_coerce(column, Text)
    if dialect == "postgresql":
        found: ColumnElement[Any] = cast(stored, JSONB)[key].astext
        return found
    path = f"$.{json.dumps(key, ensure_ascii=False)}"
    if dialect in MARIADB:
        return func.json_value(stored, path, type_=Text)
    return func.json_extract(stored, path, type_=Text)


def json_number(dialect: str, column: ColumnElement[Any], key: str) -> ColumnElement[Any]:
    """The whole number at a key of the object in a column of type `JsonText`; 0 where it has none."""
    return func.coalesce(cast(json_text(dialect, column, key), BigInteger), 0)


# Every constraint has the same name on all databases, so that a revision can change it.
NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}
MARIADB_TABLE: dict[str, Any] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_nopad_bin",
}
"""Options of tables on MariaDB: by default it ignores case and trailing spaces when it compares texts."""

metadata = MetaData(naming_convention=NAMING)


def table(name: str, *parts: SchemaItem, **settings: Any) -> Table:
    """A table of Roost's own database, with the settings that all have."""
    return Table(name, metadata, *parts, **MARIADB_TABLE, **settings)


def not_null(default: int = 0, **settings: Any) -> Any:
    """Keyword arguments of a numeric column that is NOT NULL and has a default."""
    return {"nullable": False, "server_default": text(str(default)), **settings}


def times() -> tuple[Column[Any], Column[Any]]:
    """When a row was made and changed."""
    return Column("created_at", UtcTime), Column("updated_at", UtcTime)


def parent_id(parent: str, column: str) -> Column[Any]:
    """A foreign key to the id of another table; rows are deleted with the row they belong to."""
    return Column(column, ROW_NUMBER, ForeignKey(f"{parent}.id", ondelete="CASCADE"), nullable=False)
