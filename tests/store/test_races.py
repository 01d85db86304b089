# SPDX-License-Identifier: Apache-2.0
"""Eight schedulers, each a process, on one fleet: a tenth of what `make soak` runs."""

import pytest
from tests.soak.racing import HOSTS, race, race_apart

pytestmark = pytest.mark.parametrize("kind", ["postgresql", "mariadb"])


def test_schedulers_place_as_many_as_there_is_room_for_and_no_host_takes_too_many(databases, kind):
    figures = race(databases.create(kind), requests=8 * HOSTS, per_host=6, seed=1)
    assert (figures["placed"], figures["nowhere"]) == (300, 100)


def test_schedulers_place_a_whole_anti_affinity_group_and_never_two_members_on_a_host(databases, kind):
    assert race_apart(databases.create(kind), members=40, seed=1)["placed"] == 40
