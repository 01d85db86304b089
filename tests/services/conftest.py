# SPDX-License-Identifier: Apache-2.0
"""A broker and a database for real schedulers, once per process, and stacks on them."""

import itertools

import pytest
from tests.rpc.broker import RabbitMQ
from tests.services.stack import Stack, small_fleet
from tests.store.servers import PostgreSQL

NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def broker():
    started = RabbitMQ()
    yield started
    started.stop()


@pytest.fixture(scope="session")
def database_server():
    started = PostgreSQL()
    yield started
    started.stop()


@pytest.fixture
def make_stack(broker, database_server, tmp_path):
    made = []

    def make(schedulers=1, fleet=None, config=""):
        database = database_server.create_database(f"stack{next(NUMBERS)}")
        folder = tmp_path / f"stack{len(made)}"
        folder.mkdir()
        made.append(Stack(folder, broker.address(), database, fleet or small_fleet(), config))
        made[-1].add_schedulers(schedulers)
        return made[-1]

    yield make
    for stack in made:
        stack.close()
