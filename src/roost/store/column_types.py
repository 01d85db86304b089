# SPDX-License-Identifier: Apache-2.0
"""Column types that mean the same on SQLite, PostgreSQL and MariaDB.

Revisions use them too, so a type never changes its meaning: a new meaning is a new type.
"""

from __future__ import annotations

import base64
import datetime
import json
import zlib
from typing import Any

from sqlalchemy import BigInteger, DateTime, Integer, String, Text
from sqlalchemy.dialects import mysql
from sqlalchemy.types import TypeDecorator

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
