# SPDX-License-Identifier: Apache-2.0
"""A row for every table, with values that databases like to spoil."""

import datetime
import json

from sqlalchemy import BigInteger, Boolean, Double, Integer, String, inspect, select

from roost.store.columns import CompressedJson, JsonText, UtcTime
from roost.store.schema import metadata

ODD = "Ünïcödé 漢字 🦜 'quote' \"double\" \\ % ; -- \t end "
LONG = ODD * 4000  # beyond 64 KiB, where MariaDB's TEXT ends
MOMENT = datetime.datetime(2026, 11, 15, 23, 59, 59, 999999, tzinfo=datetime.UTC)
DOCUMENT = {"text": f"{ODD}\x00", "big": 2**80, "list": [1, 2.5, None, True, {}], "long": LONG}
BIG = 2**63 - 1
ROW = 2**53 + 1  # not the last one there is: generated keys go on from here


def odd_value(column):
    """The largest or oddest value that a column must give back unchanged."""
    kind = column.type
    if isinstance(kind, (JsonText, CompressedJson)):
        return DOCUMENT
    if isinstance(kind, UtcTime):
        return MOMENT
    if isinstance(kind, Boolean):
        return True
    if isinstance(kind, Double):
        return 1 / 3
    if isinstance(kind, BigInteger):
        return ROW if column.primary_key or column.foreign_keys else BIG
    if isinstance(kind, Integer):
        return 2**31 - 1
    return odd_text(kind.length)


def odd_text(length):
    return LONG if length is None else (ODD * 10)[:length]


def odd_row(table):
    """A row with every column set; keys to other tables are the odd values there."""
    return {column.name: odd_value(column) for column in table.columns}


def bare_row(table):
    """A row with nothing but what it cannot do without."""
    needed = [each for each in table.columns if not each.nullable and each.server_default is None]
    return {column.name: plain_value(column) for column in needed}


def plain_value(column):
    kind = column.type
    if isinstance(kind, (JsonText, CompressedJson)):
        return {}
    if isinstance(kind, UtcTime):
        return MOMENT
    if isinstance(kind, Boolean):
        return False
    return "" if isinstance(kind, String) else 1


def insert_parents(connection, table, make_row):
    """The rows that a row of this table points at, each once, and first those that they point at."""
    needed = _parents(table)
    for parent in (each for each in metadata.sorted_tables if each in needed):
        connection.execute(parent.insert().values(make_row(parent)))


def _parents(table):
    direct = {key.column.table for key in table.foreign_keys}
    return direct.union(*map(_parents, direct))


def columns_there(connection):
    """Table -> the columns of it that this database has, in an older revision not all."""
    there = inspect(connection)
    tables = [table for table in metadata.sorted_tables if there.has_table(table.name)]
    names = {table: {each["name"] for each in there.get_columns(table.name)} for table in tables}
    return {table: [column for column in table.columns if column.name in names[table]] for table in tables}


def fill(connection):
    """One odd row in every table."""
    for table, columns in columns_there(connection).items():
        connection.execute(table.insert().values({column.name: odd_value(column) for column in columns}))


def contents(connection, columns=None):
    """Every row of every table, as texts that can be compared; of these columns, or of all that are there."""
    found = {}
    for table, those in (columns or columns_there(connection)).items():
        rows = connection.execute(select(*those)).mappings()
        found[table.name] = sorted(json.dumps(dict(row), default=str, sort_keys=True) for row in rows)
    return found
