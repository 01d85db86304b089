# SPDX-License-Identifier: Apache-2.0
"""Statements that lock the rows they name, and no others, in the order of their ids.

MariaDB locks every row that a statement reads, also those that its condition then rejects, and waits for each of
them. So a statement that locks must find its rows by a key. Its optimizer scans a table instead where statistics say
that it is small, as they do of a table that was filled a moment ago: hints forbid that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, FromClause, Select, Table, or_, select, union

from roost.store.column_types import MARIADB

BY_PRIMARY_KEY = "FORCE INDEX (PRIMARY)"
"""Index hint of MariaDB: a scan of the table is the last resort. The condition must begin with the primary key."""


def by_index(statement: Select[Any], table: FromClause, index: str = "PRIMARY") -> Select[Any]:
    """The SELECT with the hint that rows of the table are found by this index; no effect but on MariaDB."""
    for dialect in MARIADB:
        statement = statement.with_hint(table, f"FORCE INDEX ({index})", dialect)
    return statement


def select_for_update(
    dialect: str,
    columns: Sequence[ColumnElement[Any]],
    table: Table,
    wanted: Sequence[ColumnElement[bool]],
    is_one: bool = False,
) -> Select[Any]:
    """A SELECT that locks the rows for which one of the conditions `wanted` holds, in the order of `id`.

    Each condition compares a column that has an index with its keys. `is_one`: there is one condition, which compares
    a unique column with one key; MariaDB never scans a table for that.
    """
    rows = select(*columns)
    if is_one or dialect not in MARIADB:
        return rows.where(or_(*wanted)).order_by(table.c.id).with_for_update(of=table)
    # The ids are read first, without a lock. A subquery with UNION or DISTINCT is not merged into the outer query.
    ids = [select(table.c.id).where(each).distinct() for each in wanted]
    found = (ids[0] if len(ids) == 1 else union(*ids)).subquery("wanted")
    rows = rows.select_from(found.join(table, table.c.id == found.c.id)).prefix_with("STRAIGHT_JOIN")
    return by_index(rows, table).order_by(found.c.id).with_for_update(of=table)
