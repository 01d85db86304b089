# SPDX-License-Identifier: Apache-2.0
"""Values inside columns of JSON text, in the SQL of each database."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Text, cast, func, type_coerce
from sqlalchemy.dialects.postgresql import JSONB

from roost.store.column_types import MARIADB


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
