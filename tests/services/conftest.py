# SPDX-License-Identifier: Apache-2.0
"""Stacks: real schedulers on the broker and the database server of this process."""

import pytest
from tests.services.stack import Stack, small_fleet


@pytest.fixture
def make_stack(broker, databases, tmp_path):
    made = []

    def make(schedulers=1, fleet=None, config=""):
        database = databases.create("postgresql")
        folder = tmp_path / f"stack{len(made)}"
        folder.mkdir()
        made.append(Stack(folder, broker.address(), database, fleet or small_fleet(), config))
        made[-1].add_schedulers(schedulers)
        return made[-1]

    yield make
    for stack in made:
        stack.close()
