# SPDX-License-Identifier: Apache-2.0
"""D9: a repeated request whose host has died since is a move; the old claim is its source."""

import pytest
from tests.defects.clouds import INSTANCE, MIGRATION, RAM, TWO
from tests.flow.cloud import hosts_of, request

from roost.errors import NoValidHost
from roost.records.services import set_service_flags


def test_d9_an_earlier_answer_is_not_a_dead_host(make_cloud):
    cloud = make_cloud(TWO, RAM)
    loop = cloud.manager().claims
    loop.select(request(), [INSTANCE])
    set_service_flags(cloud.engine, "a", forced_down=True, disabled=True)
    cloud.clock.seconds += 5
    assert hosts_of(loop.select(request(), [INSTANCE])) == ["b"]
    assert cloud.held(INSTANCE, MIGRATION) == {INSTANCE: ["b"], MIGRATION: ["a"]}


def test_d9_a_host_that_is_only_disabled_stays_the_answer(make_cloud):
    cloud = make_cloud(TWO, RAM)
    loop = cloud.manager().claims
    loop.select(request(), [INSTANCE])
    set_service_flags(cloud.engine, "a", disabled=True)
    cloud.clock.seconds += 5
    assert hosts_of(loop.select(request(), [INSTANCE])) == ["a"]


def test_d9_without_another_host_it_keeps_what_it_has(make_cloud):
    cloud = make_cloud({"a": {}})
    loop = cloud.manager().claims
    loop.select(request(), [INSTANCE])
    set_service_flags(cloud.engine, "a", forced_down=True)
    cloud.clock.seconds += 5
    with pytest.raises(NoValidHost):
        loop.select(request(), [INSTANCE])
    assert cloud.held(INSTANCE, MIGRATION) == {INSTANCE: ["a"]}
