# SPDX-License-Identifier: Apache-2.0
"""Every test of the store runs on SQLite, PostgreSQL and MariaDB, unless it is about one of them."""

import pytest

from roost.store.engine import open_engine
from roost.store.options import DatabaseOptions
from roost.store.schema_upgrade import upgrade

KINDS = ("sqlite", "postgresql", "mariadb")


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
