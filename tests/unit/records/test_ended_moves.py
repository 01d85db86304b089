# SPDX-License-Identifier: Apache-2.0
"""The end of a move in the ledger: an idle server keeps what it holds on the host where it is."""

from dataclasses import replace

import pytest
from tests.unit.compute.agents import Agents

from roost.records.servers import end_move


@pytest.fixture
def agents(tmp_path):
    agents = Agents(tmp_path, ("a", "b", "c"))
    yield agents
    agents.close()


@pytest.mark.parametrize(
    ("host", "held"),
    [("a", ({"a": 1024}, {})), ("b", ({"b": 1024}, {})), ("c", ({"b": 1024}, {"a": 1024}))],
    ids=["undone on the source", "finished on the target", "left alone where nothing is held"],
)
def test_a_move_from_a_to_b_ends_where_the_server_is(agents, host, held):
    server = agents.build("a")
    agents.begin_move(server, "live-migrate", "live-migration", "b")
    for _ in range(2):
        end_move(agents.ledger, replace(server, host=host))
    assert agents.held(server) == held
