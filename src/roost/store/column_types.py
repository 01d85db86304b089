# SPDX-License-Identifier: Apache-2.0
"""Column types that mean the same on SQLite, PostgreSQL and MariaDB.

Revisions use them too, so a type never changes its meaning: a new meaning is a new type.
"""

from __future__ import annotations

import datetime
import json
from typing import Any

from sqlalchemy import BigInteger, DateTime, Integer, String, Text
from sqlalchemy.dialects import mysql
from sqlalchemy.types import TypeDecorator

MARIADB = ("mysql", "mariadb")

ROW_NUMBER = BigInteger().with_variant(Integer(), "sqlite")
"""For generated keys: SQLite counts up only what it calls INTEGER, which has 64 bits there."""

NAME = String(255)
"""A name that may stand in an index."""

UUID = String(36)
"""A uuid as its text."""

LONG_TEXT = Text().with_variant(mysql.LONGTEXT(), *MARIADB)
"""Text of any length: what MariaDB calls TEXT ends at 64 KiB."""


def as_json_text(value: Any) -> str:
    """A JSON value as it stands in a column of the type below."""
    return _ENCODER.encode(value)


_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


class JsonText(TypeDecorator[Any]):
    """Any JSON value, kept as text. Python's None is NULL."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Any) -> Any:
        """Long text on every database, so that what comes back is what was written, big numbers included."""
        return dialect.type_descriptor(LONG_TEXT)

    def process_bind_param(self, value: Any, dialect: Any) -> str | None:
        """ASCII only: a NUL in a text is escaped, which PostgreSQL would not take otherwise."""
        return None if value is None else as_json_text(value)

    def process_result_value(self, value: str | None, dialect: Any) -> Any:
        """The value again."""
        return None if value is None else json.loads(value)


class UtcTime(TypeDecorator[datetime.datetime]):
    """A moment, to the microsecond: aware on our side, UTC without a zone in the database."""

    impl = DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: Any) -> Any:
        """MariaDB cuts off fractions of a second unless it is told to keep them."""
        kind = mysql.DATETIME(fsp=6) if dialect.name in MARIADB else DateTime()
        return dialect.type_descriptor(kind)

    def process_bind_param(self, value: datetime.datetime | None, dialect: Any) -> datetime.datetime | None:
        """A time without a zone could mean any hour of the day, so it is refused."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value} has no time zone")
        return value.astimezone(datetime.UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime.datetime | None, dialect: Any) -> datetime.datetime | None:
        """The moment, in UTC."""
        return None if value is None else value.replace(tzinfo=datetime.UTC)
