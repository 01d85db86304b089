# SPDX-License-Identifier: Apache-2.0
"""Agents that are gone when a test is over."""

import pytest
from tests.unit.compute.agents import Agents


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
