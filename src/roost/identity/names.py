# SPDX-License-Identifier: Apache-2.0
"""Names of users, projects and application credentials: what can be one, and how something is found by it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, Connection, Row, Table, or_, select

from roost.errors import BadInput
from roost.model.uuids import canonical_uuid
from roost.store.columns import check_rows, fits


def check_name(column: Column[Any], name: str, noun: str) -> None:
    """BadInput for a name that is empty, has spaces around it or cannot be stored in the column."""
    if not name or name != name.strip():
        raise BadInput(f"{noun} {name[:60]!r}: a name is not empty, and has no spaces around it")
    if not name.isprintable():
        raise BadInput(f"{noun} {name[:60]!r}: a name has printable characters only")
    check_rows(column.table, [column.name], [(name,)], lambda _: noun)


def read_named(connection: Connection, table: Table, name_or_id: str) -> Row[Any] | None:
    """The row with this id or, failing that, this name; None where there is none. An id comes in any spelling."""
    if not fits(table.c.name, name_or_id):
        return None
    key = canonical_uuid(name_or_id)
    rows = connection.execute(select(table).where(or_(table.c.id == key, table.c.name == name_or_id))).all()
    return min(rows, key=lambda row: bool(row.id != key), default=None)
