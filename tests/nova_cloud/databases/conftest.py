# SPDX-License-Identifier: Apache-2.0
"""Databases filled from dumps of a running nova cloud, on MariaDB and on PostgreSQL."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import column, create_engine, insert, select, table, text, update
from sqlalchemy.engine import make_url

from roost.nova.databases.api import Cell
from roost.nova.databases.engines import open_read_only, parse_nova_url
from roost.nova.databases.followers import CellReader
from roost.store.engine import parse_database_url

DUMPS = Path(__file__).parent.parent / "dumps"
BUSY_HOST = {"mariadb": "host0", "postgresql": "host2"}
"""The host where nova put the servers."""
CELL_UUID = "5f2c4a0e-7a3c-4a52-9a3e-8d2f7c1b0a99"


class TurnedClock:
    """Goes forward when it is told to; begins after the dumps were made."""

    def __init__(self):
        self.moment = datetime(2026, 11, 17, 6, 0, tzinfo=UTC)

    def turn(self, seconds):
        self.moment += timedelta(seconds=seconds)

    def now(self):
        return self.moment

    def monotonic(self):
        return self.moment.timestamp()


class Filled:
    """A database of nova's, which a test may write to as nova would."""

    def __init__(self, address):
        self.address, self.name = address, make_url(address).database
        self.engine = create_engine(parse_database_url(address), isolation_level="AUTOCOMMIT", pool_pre_ping=True)

    def load(self, dump):
        with self.engine.connect() as connection:
            connection.exec_driver_sql("BEGIN")
            for statement in dump.read_text().split(";\n"):
                if statement.strip():
                    connection.exec_driver_sql(statement.replace("%", "%%"))
            connection.exec_driver_sql("COMMIT")

    def rows(self, name, /, **where):
        return [dict(row._mapping) for row in self._run(select(text("*")).select_from(table(name)), where)]

    def change(self, name, where, /, **values):
        named = table(name, *map(column, values))
        self._run(update(named).values(**values), where)

    def add(self, name, row):
        self._run(insert(table(name, *map(column, row))).values(**row), {})

    def remove(self, name, /, **where):
        self._run(table(name).delete(), where)

    def _run(self, statement, where):
        for key, value in where.items():
            statement = statement.where(column(key) == value)
        with self.engine.connect() as connection:
            result = connection.execute(statement)
            return result.all() if result.returns_rows else []


@pytest.fixture(scope="session", params=["mariadb", "postgresql"])
def kind(request):
    return request.param


@pytest.fixture(scope="session")
def fill(databases):
    """Makes databases with the content of a dump."""
    made = []

    def fill_one(kind, part):
        made.append(Filled(databases.create(kind)))
        made[-1].load(DUMPS / f"{part}.{kind}.sql")
        return made[-1]

    yield fill_one
    for each in made:
        each.engine.dispose()


@pytest.fixture(scope="session")
def api(fill, kind):
    return fill(kind, "api")


@pytest.fixture(scope="session")
def stored_cell(fill, kind):
    """A cell's database. Tests put back what they change."""
    return fill(kind, "cell")


@pytest.fixture
def clock():
    return TurnedClock()


@pytest.fixture
def opened():
    """Opens read-only engines and closes them at the end of the test."""
    engines = []

    def open_one(address):
        engines.append(open_read_only(parse_nova_url(address, "the test's address")))
        return engines[-1]

    yield open_one
    for engine in engines:
        engine.dispose()


@pytest.fixture
def make_reader(opened, clock):
    def make(stored, **options):
        cell = Cell(2, CELL_UUID, "cell1", parse_nova_url(stored.address, "the test's address"))
        return CellReader(cell, opened(stored.address), clock, **options)

    return make


@pytest.fixture
def reader(make_reader, stored_cell):
    return make_reader(stored_cell)
