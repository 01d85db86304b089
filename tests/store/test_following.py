# SPDX-License-Identifier: Apache-2.0
"""A host manager misses nothing that several writers do at once: `following.py`, a second of it."""

import pytest
from tests.store.following import follow

from roost.store.schema_upgrade import upgrade


@pytest.fixture
def store(opened, databases):
    engine = opened(databases.create("postgresql"))
    upgrade(engine)
    return engine


def test_after_a_second_of_everything_the_table_is_what_a_full_read_gives(store):
    tally = follow(store, seconds=1.5, writers=3)
    assert tally["claim"] > 10
    assert tally["rolled back"] > 0
    assert tally["refreshes"] > 3
    assert tally["rows refreshed"] > 10
