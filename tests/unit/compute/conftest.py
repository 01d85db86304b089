# SPDX-License-Identifier: Apache-2.0
"""Agents that end with their test; a database in a file, servers in it, and the usage that an agent tracks."""

import itertools
import uuid

import pytest
from tests.clocks import SleeplessClock
from tests.store.sqlite_template import open_upgraded
from tests.unit.compute.agents import Agents

from roost import Flavor, Image, RequestSpec
from roost.compute.options import ComputeOptions
from roost.compute.tracker import ResourceTracker
from roost.ledger.ledger import Ledger
from roost.messages.objects.request import request_to_object
from roost.records.server import Server
from roost.records.servers import ServerStore

NUMBERS = itertools.count(1)
SMALL = Flavor(1, 512, root_gb=10, ephemeral_gb=2, swap=512, name="small")


@pytest.fixture
def clock():
    return SleeplessClock()


@pytest.fixture
def engine(tmp_path):
    engine = open_upgraded(tmp_path)
    yield engine
    engine.dispose()


@pytest.fixture
def store(engine, clock):
    return ServerStore(engine, clock)


@pytest.fixture
def ledger(engine, clock):
    return Ledger(engine, now=clock.now)


@pytest.fixture
def new_server(store):
    """Creates a server that is being scheduled."""

    def create(flavor=SMALL, project_id="blue", os_type="linux", **values):
        image = Image(properties={"os_type": os_type})
        number = str(uuid.UUID(int=next(NUMBERS)))
        spec = RequestSpec(flavor=flavor, image=image, project_id=project_id)
        store.create(
            [Server(number, "s", None, project_id=project_id, request_spec=request_to_object(spec), **values)]
        )
        return store.get(number)

    return create


@pytest.fixture
def make_tracker(store, ledger):
    def make(host="h1", **options):
        settings = {"reserved_host_memory_mb": 512} | options
        return ResourceTracker(host, store, ledger, ComputeOptions(**settings))

    return make


@pytest.fixture
def tracker(make_tracker):
    return make_tracker()


@pytest.fixture
def make_agents(tmp_path):
    made = []

    def make(hosts=("a", "b"), **options):
        folder = tmp_path / f"agents{len(made)}"
        folder.mkdir()
        made.append(Agents(folder, hosts, **options))
        return made[-1]

    yield make
    for agents in made:
        agents.close()


@pytest.fixture
def agents(make_agents):
    return make_agents()
