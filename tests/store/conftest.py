# SPDX-License-Identifier: Apache-2.0
"""Every test of the store runs on SQLite, PostgreSQL and MariaDB, unless it is about one of them."""

import itertools

import pytest
from sqlalchemy import create_engine, text
from tests.store.servers import MariaDB, PostgreSQL

from roost.store.database_url import parse_database_url
from roost.store.engine import open_engine
from roost.store.options import DatabaseOptions
from roost.store.schema_upgrade import upgrade

KINDS = ("sqlite", "postgresql", "mariadb")


class Databases:
    """Makes empty databases; a server is started when it is first needed, once per process."""

    def __init__(self, folder):
        self.folder = folder
        self.servers = {}
        self.numbers = itertools.count(1)

    def server(self, kind):
        if kind not in self.servers:
            self.servers[kind] = {"postgresql": PostgreSQL, "mariadb": MariaDB}[kind]()
        return self.servers[kind]

    def create(self, kind):
        """The address of a database that is new and empty."""
        name = f"roost_{next(self.numbers)}"
        if kind == "sqlite":
            return f"sqlite:///{self.folder}/{name}.db"
        return self.server(kind).create_database(name)

    def execute(self, kind, *statements, database=None):
        """Statements for the server itself, as its administrator."""
        name = database or {"postgresql": "postgres", "mariadb": "mysql"}[kind]
        engine = create_engine(parse_database_url(self.server(kind).address(name)), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            for statement in statements:
                connection.execute(text(statement))
        engine.dispose()

    def stop(self):
        for server in self.servers.values():
            server.stop()


@pytest.fixture(scope="session")
def databases(tmp_path_factory):
    made = Databases(tmp_path_factory.mktemp("databases"))
    yield made
    made.stop()


@pytest.fixture(scope="module", params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def address(databases, kind):
    """Of a new, empty database."""
    return databases.create(kind)


@pytest.fixture
def opened():
    """Opens engines and closes them at the end of the test."""
    engines = []

    def open_one(address, may_create=True, **options):
        engines.append(open_engine(DatabaseOptions(connection=address, **options), may_create))
        return engines[-1]

    yield open_one
    for engine in engines:
        engine.dispose()


@pytest.fixture
def empty(opened, address):
    """An engine on a new, empty database."""
    return opened(address)


@pytest.fixture(scope="module")
def current(databases, kind):
    """An engine on a database with all tables, shared by the tests of a module."""
    engine = open_engine(DatabaseOptions(connection=databases.create(kind)), may_create=True)
    upgrade(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def transaction(current):
    """A connection on `current`; what a test writes is gone after it."""
    with current.connect() as connection:
        connection.begin()
        yield connection
        connection.rollback()
