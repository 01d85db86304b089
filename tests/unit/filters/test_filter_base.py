# SPDX-License-Identifier: Apache-2.0
"""People's own filters in nova's shape: spec/filters.md 2.1 to 2.3."""

import random

import numpy as np
import pytest

from roost.errors import NoValidHost, PluginFailed
from roost.filters import BaseHostFilter, Filter, HostFilter, all_filters
from roost.filters.availability_zone import AvailabilityZoneFilter
from roost.filters.base import applies_to_rebuild
from roost.plugins.registry import FILTERS
from roost.scheduler.pipeline import Pipeline
from roost.testing import make_hosts, make_spec

REBUILD = {"_nova_check_type": ["rebuild"]}


def place(table, spec, *filters):
    """The names of the chosen hosts, with these filters and nothing else."""
    pipeline = Pipeline(filters, [], checks_capacity=False)
    uuids = [f"i{number}" for number in range(spec.num_instances)]
    decision = pipeline.place(table, spec, uuids, randomness=random.Random(0), clock=lambda: 0)
    return [each.host for each in decision.selections]


class EnoughMemory(HostFilter):
    """The spelling since mitaka."""

    def host_passes(self, host_state, spec_obj):
        return host_state.free_ram_mb >= spec_obj.flavor.memory_mb


class EnoughMemoryOldSpelling(BaseHostFilter):
    """The spelling up to liberty."""

    def host_passes(self, host_state, filter_properties):
        instance_type = filter_properties.get("instance_type")
        return host_state.free_ram_mb >= instance_type["memory_mb"]


class WantedByHint(HostFilter):
    def host_passes(self, host_state, filter_properties):
        return host_state.host == filter_properties["scheduler_hints"].get("wanted")


class Named(HostFilter):
    """Keeps the hosts of these names; remembers who was asked."""

    def __init__(self, *names):
        super().__init__()
        self.names = names
        self.asked = []

    def host_passes(self, host_state, spec_obj):
        self.asked.append(host_state.host)
        return host_state.host in self.names


class Raising(HostFilter):
    def host_passes(self, host_state, spec_obj):
        if host_state.host == "b":
            raise ZeroDivisionError("no divisor")
        return True


@pytest.mark.parametrize("plugin", [EnoughMemory, EnoughMemoryOldSpelling])
def test_host_passes_is_asked_in_either_spelling(plugin):
    hosts = make_hosts(free_ram_mb=[511, 512, 513])
    assert plugin().mask(hosts, make_spec(memory_mb=512)).tolist() == [False, True, True]


def test_hints_are_read_in_the_old_spelling():
    hosts = make_hosts(host=["a", "b"])
    assert WantedByHint().mask(hosts, make_spec(scheduler_hints={"wanted": ["b"]})).tolist() == [False, True]


@pytest.mark.parametrize(("answer", "passes"), [(1, True), ("yes", True), (None, False), ("", False), (0, False)])
def test_any_truthy_answer_passes(answer, passes):
    class Answers(HostFilter):
        def host_passes(self, host_state, spec_obj):
            return answer

    assert Answers().mask(make_hosts(1), make_spec()).tolist() == [passes]


def test_both_names_of_the_base_are_the_same_class():
    assert BaseHostFilter is HostFilter


def test_hosts_are_asked_one_by_one_in_their_order():
    rule = Named("a", "c")
    hosts = make_hosts(host=["a", "b", "c"]).in_the_running().take([2, 0, 1])
    assert rule.mask(hosts, make_spec()).tolist() == [True, True, False]
    assert rule.asked == ["c", "a", "b"]


def test_filter_all_may_be_overridden_to_see_all_hosts_together():
    class Roomiest(HostFilter):
        def filter_all(self, filter_obj_list, spec_obj):
            return [max(filter_obj_list, key=lambda host: host.free_ram_mb)]

    assert Roomiest().mask(make_hosts(free_ram_mb=[1, 3, 2]), make_spec()).tolist() == [False, True, False]


def test_filter_all_may_be_a_generator():
    class EverySecond(HostFilter):
        def filter_all(self, filter_obj_list, spec_obj):
            yield from filter_obj_list[::2]

    assert EverySecond().mask(make_hosts(3), make_spec()).tolist() == [True, False, True]


def test_the_order_that_filter_all_answers_in_changes_nothing():
    class Backwards(HostFilter):
        def filter_all(self, filter_obj_list, spec_obj):
            return list(filter_obj_list)[::-1]

    assert place(make_hosts(host=["a", "b"]), make_spec(), Backwards()) == ["a"]


def test_filter_all_that_answers_none_leaves_nobody():
    class Nobody(HostFilter):
        def filter_all(self, filter_obj_list, spec_obj):
            return None

    with pytest.raises(NoValidHost) as caught:
        place(make_hosts(3), make_spec(), Nobody())
    assert caught.value.decision.rejected == {"Nobody": 3}


def test_the_default_filter_all_calls_host_passes():
    class Doubtful(Named):
        def filter_all(self, filter_obj_list, spec_obj):
            return super().filter_all([host for host in filter_obj_list if host.host != "a"], spec_obj)

    assert Doubtful("a", "b").mask(make_hosts(host=["a", "b"]), make_spec()).tolist() == [False, True]


def test_filters_run_in_their_order_and_stop_when_nobody_is_left():
    first, second, third = Named("a", "b"), Named("c"), Named("a")
    with pytest.raises(NoValidHost):
        place(make_hosts(host=["a", "b", "c"]), make_spec(), first, second, third)
    assert (first.asked, second.asked, third.asked) == (["a", "b", "c"], ["a", "b"], [])


def test_without_filters_every_host_stays():
    assert place(make_hosts(host=["a", "b"]), make_spec()) == ["a"]


def test_a_filter_is_asked_for_every_instance():
    rule = Named("a", "b")
    place(make_hosts(host=["a", "b"]), make_spec(num_instances=3), rule)
    assert rule.asked == ["a", "b"] * 3


def test_a_once_per_request_filter_is_asked_for_the_first_instance_only():
    class Once(Named):
        run_filter_once_per_request = True

    rule = Once("a", "b")
    place(make_hosts(host=["a", "b"]), make_spec(num_instances=3), rule)
    assert rule.asked == ["a", "b"]


def test_run_filter_for_index_may_be_overridden():
    class FromTheSecond(Named):
        def run_filter_for_index(self, index):
            return index > 0

    rule = FromTheSecond("b")
    assert place(make_hosts(host=["a", "b"]), make_spec(num_instances=2), rule) == ["a", "b"]


def test_a_rebuild_passes_a_filter_unasked():
    rule = Named("b")
    assert place(make_hosts(host=["a", "b"]), make_spec(scheduler_hints=REBUILD), rule) == ["a"]
    assert rule.asked == []


@pytest.mark.parametrize("flag", ["RUN_ON_REBUILD", "runs_on_rebuild"])
def test_a_rebuild_goes_through_a_filter_with_the_flag_in_either_spelling(flag):
    rule = type("OnRebuild", (Named,), {flag: True})("b")
    assert place(make_hosts(host=["a", "b"]), make_spec(scheduler_hints=REBUILD), rule) == ["b"]


def test_a_plugin_derived_from_a_built_in_filter_says_itself_which_requests_it_applies_to():
    class NoneOutsideTheZone(AvailabilityZoneFilter):
        """A request that names no zone passes nowhere."""

        def applies_to(self, spec):
            return True

        def mask(self, hosts, spec):
            return np.full(len(hosts), bool(spec.availability_zone))

    with pytest.raises(NoValidHost):
        place(make_hosts(host=["a", "b"]), make_spec(), NoneOutsideTheZone())


def test_no_filter_runs_on_rebuild_unless_it_says_so():
    assert not applies_to_rebuild(HostFilter())
    assert not applies_to_rebuild(Filter())


def test_a_predicate_called_directly_knows_nothing_of_rebuilds():
    (host,) = make_hosts(1, host="a")
    assert not Named("b").host_passes(host, make_spec(scheduler_hints=REBUILD))


def test_a_filter_that_raises_fails_the_request_with_plugin_and_host():
    with pytest.raises(PluginFailed, match=r"^Raising failed on host b: ZeroDivisionError: no divisor$") as caught:
        place(make_hosts(host=["a", "b", "c"]), make_spec(), Raising())
    assert (caught.value.plugin, caught.value.host) == ("Raising", "b")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_filter_all_that_raises_fails_the_request_with_the_plugin():
    class Broken(HostFilter):
        def filter_all(self, filter_obj_list, spec_obj):
            raise KeyError("zone")

    with pytest.raises(PluginFailed, match=r"^Broken failed: KeyError: 'zone'$"):
        place(make_hosts(2), make_spec(), Broken())


def test_a_generator_that_raises_half_way_fails_the_request_with_the_plugin():
    class HalfWay(HostFilter):
        def filter_all(self, filter_obj_list, spec_obj):
            yield filter_obj_list[0]
            raise KeyError("zone")

    with pytest.raises(PluginFailed, match="HalfWay failed"):
        place(make_hosts(2), make_spec(), HalfWay())


def test_a_filter_on_columns_that_raises_fails_the_request_with_the_plugin():
    class Columns(Filter):
        def mask(self, hosts, spec):
            return hosts.column("no_such_column") > 0

    with pytest.raises(PluginFailed, match=r"^Columns failed: KeyError: 'no_such_column'$"):
        place(make_hosts(2), make_spec(), Columns())


def test_a_filter_on_columns_with_too_few_answers_fails_the_request_with_the_plugin():
    class TooFew(Filter):
        def mask(self, hosts, spec):
            return np.ones(1, dtype=bool)

    with pytest.raises(PluginFailed, match=r"TooFew failed: .*1 answer.* for 2 hosts"):
        place(make_hosts(2), make_spec(), TooFew())


def test_a_filter_that_raises_takes_nothing_and_the_next_request_is_served():
    table = make_hosts(host=["a", "b"])
    with pytest.raises(PluginFailed):
        place(table, make_spec(), Raising())
    assert place(table, make_spec(), Named("a")) == ["a"]
    assert table.num_instances.tolist() == [1, 0]


def test_a_filter_may_write_limits_and_attributes_on_the_host_for_this_request():
    class Writes(HostFilter):
        def host_passes(self, host_state, spec_obj):
            host_state.limits["bandwidth"] = 10
            host_state.my_own_note = "seen"
            return True

    class Reads(HostFilter):
        def host_passes(self, host_state, spec_obj):
            return host_state.my_own_note == "seen" and host_state.limits == {"bandwidth": 10}

    assert place(make_hosts(host=["a"]), make_spec(), Writes(), Reads()) == ["a"]


def test_a_filter_that_says_no_gives_at_least_its_name_as_reason():
    (host,) = make_hosts(1)
    assert Named().reason(host, make_spec()) == "Named said no"


def test_options_are_the_defaults_unless_handed_in():
    from roost.filters.availability_zone import AvailabilityZoneFilter

    assert AvailabilityZoneFilter().options.default_availability_zone == "nova"


def test_all_filters_gives_every_built_in():
    assert all_filters() == list(FILTERS)
