# SPDX-License-Identifier: Apache-2.0
"""What the hosts that a third-party driver names become: a decision, and consumed resources."""

import itertools
import random
from types import SimpleNamespace

import pytest

from roost.errors import NoValidHost
from roost.scheduler.drivers import OwnChoice
from roost.testing import make_hosts, make_spec


@pytest.fixture
def table():
    return make_hosts(host=["a", "b"], vcpus_total=64, total_usable_ram_mb=65536, total_usable_disk_gb=1000)


def place(table, choose, uuids=("i1",)):
    clock = itertools.count(0, 1000).__next__
    return OwnChoice("Own", choose).place(
        table, make_spec(memory_mb=1024), list(uuids), randomness=random.Random(1), clock=clock
    )


def with_limits(limits, position=0):
    """A driver that chooses all hosts, and sets the limits of the one at `position`."""

    def choose(hosts, spec, count, randomness):
        hosts[position].limits = limits
        return hosts

    return choose


def test_limits_of_a_chosen_host_are_in_the_answer(table):
    (selection,) = place(table, with_limits({"vcpu": 4})).selections
    assert selection.limits == {"vcpu": 4}


def test_a_host_whose_limits_are_none_is_chosen_without_limits(table):
    (selection,) = place(table, with_limits(None)).selections
    assert (selection.host, selection.limits) == ("a", {})
    assert table.num_instances.tolist() == [1, 0]


@pytest.mark.parametrize("position", [0, 1])
def test_limits_that_are_no_mapping_fail_and_nothing_stays_consumed(table, position):
    free = table.free_ram_mb.tolist()
    with pytest.raises(TypeError):
        place(table, with_limits(5, position), ["i1", "i2"])
    assert (table.free_ram_mb.tolist(), table.num_instances.tolist()) == (free, [0, 0])


def test_an_object_without_limits_fails_and_nothing_stays_consumed(table):
    def choose(hosts, spec, count, randomness):
        return [SimpleNamespace(host=host.host, nodename=host.nodename) for host in hosts]

    free = table.free_ram_mb.tolist()
    with pytest.raises(AttributeError):
        place(table, choose)
    assert (table.free_ram_mb.tolist(), table.num_instances.tolist()) == (free, [0, 0])


def test_a_failure_after_the_host_consumed_releases_it(table, monkeypatch):
    def fail(*arguments, **keywords):
        raise MemoryError

    monkeypatch.setattr("roost.scheduler.drivers.make_selection", fail)
    free = table.free_ram_mb.tolist()
    with pytest.raises(MemoryError):
        place(table, with_limits({}))
    assert (table.free_ram_mb.tolist(), table.num_instances.tolist()) == (free, [0, 0])


def test_choose_is_the_only_stage_that_is_timed(table):
    assert place(table, with_limits({})).time_us == {"choose": 1.0, "total": 1.0}


def test_choose_is_the_only_stage_that_is_timed_where_there_is_no_host(table):
    with pytest.raises(NoValidHost) as caught:
        place(table, lambda *arguments: [])
    assert caught.value.decision.time_us == {"choose": 1.0, "total": 1.0}
