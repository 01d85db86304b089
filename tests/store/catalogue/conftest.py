# SPDX-License-Identifier: Apache-2.0
"""All tests of the catalogue share a migrated database per kind: making the tables takes longer than most of them."""

import pytest
from tests.store.conftest import KINDS
from tests.store.fleets import wipe

from roost.store.engine import open_engine
from roost.store.options import DatabaseOptions
from roost.store.schema_upgrade import upgrade


@pytest.fixture(scope="session", params=KINDS)
def kind(request):
    return request.param


@pytest.fixture(scope="session")
def current(databases, kind):
    engine = open_engine(DatabaseOptions(connection=databases.create(kind)), may_create=True)
    upgrade(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def store(current):
    """An engine on a database without a row."""
    yield current
    wipe(current)
