# SPDX-License-Identifier: Apache-2.0
"""One request from all hosts to the chosen ones: spec/filters.md 2.3 to 2.7, spec/drivers-and-rpc.md 1.2.

Every test runs once with a full scan and once from the cache, as far as its filters and weighers are cached.
"""

import itertools
import random
from collections import Counter
from functools import partial

import pytest
from tests.engines import EAGER, FULL_SCAN

from roost.errors import NoValidHost, PluginFailed
from roost.filters.base import HostFilter
from roost.filters.compute import ComputeFilter
from roost.filters.core import CoreFilter
from roost.filters.disk import DiskFilter
from roost.filters.ram import RamFilter
from roost.model import Destination, ServerGroup
from roost.scheduler.pipeline import Pipeline
from roost.scheduler.search import Choice
from roost.testing import make_hosts, make_spec
from roost.weighers.base import HostWeigher
from roost.weighers.ram import RAMWeigher

REBUILD = {"_nova_check_type": ["rebuild"]}


@pytest.fixture(params=[EAGER, FULL_SCAN], ids=["cached", "full scan"], autouse=True)
def engine(request, monkeypatch):
    """The engine of every pipeline here."""
    monkeypatch.setitem(globals(), "Pipeline", partial(Pipeline, engine=request.param))


class Recorder(HostFilter):
    """Lets every host pass and records the hosts it was asked about: one list per round."""

    def __init__(self):
        super().__init__()
        self.rounds = []

    def filter_all(self, filter_obj_list, spec_obj):
        hosts = list(filter_obj_list)
        self.rounds.append([(host.host, host.nodename) for host in hosts])
        return [host for host in hosts if self.host_passes(host, spec_obj)]

    def host_passes(self, host_state, spec_obj):
        return True


class RebuildRecorder(Recorder):
    RUN_ON_REBUILD = True


def hosts_of(**columns):
    """Hosts with room for many small instances, unless a column says otherwise."""
    roomy = {"vcpus_total": 64, "total_usable_ram_mb": 65536, "total_usable_disk_gb": 1000}
    return make_hosts(**(roomy | columns))


def place(table, spec, filters=(), weighers=(), alternates=0, choice=None, seed=0, clock=lambda: 0):
    uuids = [f"i{number}" for number in range(spec.num_instances)]
    pipeline = Pipeline(filters, weighers, choice)
    return pipeline.place(table, spec, uuids, randomness=random.Random(seed), clock=clock, alternates=alternates)


def chosen(decision):
    return [each.host for each in decision.selections]


def with_alternates(decision):
    return [[each.host, *(other.host for other in each.alternates)] for each in decision.selections]


def failure(*arguments, **keywords):
    with pytest.raises(NoValidHost) as caught:
        place(*arguments, **keywords)
    return caught.value.decision


def contents(table):
    return {name: column.tolist() for name, column in table.numbers.items()} | {
        "instances": {row: set(held) for row, held in table.instances.items() if held}
    }


# --- prefilter (spec/filters.md 2.7) -----------------------------------------------------------------

ALL = [("H2", "n3"), ("h1", "n1"), ("h1", "n2")]
BOTH_OF_H1 = [("h1", "n1"), ("h1", "n2")]


@pytest.mark.parametrize(
    ("fields", "survivors", "asked"),
    [
        pytest.param({}, ALL, ALL, id="nothing named"),
        pytest.param({"ignore_hosts": ["h2"]}, BOTH_OF_H1, BOTH_OF_H1, id="ignored in any case"),
        pytest.param({"force_hosts": ["h1"]}, BOTH_OF_H1, None, id="forced host: both nodes, no filters"),
        pytest.param({"force_hosts": ["h1"], "force_nodes": ["n2"]}, [("h1", "n2")], None, id="host and node"),
        pytest.param({"force_hosts": ["h1"], "force_nodes": ["n3"]}, [], None, id="a node of another host"),
        pytest.param({"ignore_hosts": ["h1"], "force_hosts": ["h1"]}, [], None, id="ignored before forced"),
        pytest.param({"force_hosts": ["H1"]}, BOTH_OF_H1, None, id="forced in any case"),
        pytest.param({"force_nodes": ["n1"]}, [("h1", "n1")], None, id="forced node"),
        pytest.param({"force_nodes": ["N1"]}, [], None, id="nodes are case-sensitive"),
        pytest.param(
            {"force_hosts": ["h1"], "scheduler_hints": REBUILD}, BOTH_OF_H1, BOTH_OF_H1, id="forced, but a rebuild"
        ),
        pytest.param({"force_hosts": ["h1"], "scheduler_hints": {"_nova_check_type": []}}, BOTH_OF_H1, None, id="[]"),
        pytest.param(
            {"requested_destination": Destination(host="h1")}, BOTH_OF_H1, BOTH_OF_H1, id="destination without node"
        ),
        pytest.param(
            {"requested_destination": Destination(host="h1", node="n2")},
            [("h1", "n2")],
            [("h1", "n2")],
            id="destination with node",
        ),
        pytest.param(
            {"requested_destination": Destination(host="h1", node="")}, BOTH_OF_H1, BOTH_OF_H1, id="empty node"
        ),
        pytest.param({"requested_destination": Destination(host="H1")}, [], None, id="destination is case-sensitive"),
        pytest.param({"requested_destination": Destination(node="n1")}, ALL, ALL, id="destination without host"),
        pytest.param({"requested_destination": Destination(host="h1"), "ignore_hosts": ["h1"]}, [], None, id="both"),
        pytest.param({"ignore_hosts": [], "force_hosts": [], "force_nodes": []}, ALL, ALL, id="empty lists"),
    ],
)
def test_hosts_that_the_request_names(fields, survivors, asked):
    table = hosts_of(host=["h1", "h1", "H2"], node=["n1", "n2", "n3"])
    recorder = RebuildRecorder()
    try:
        (selection,) = place(table, make_spec(**fields), [recorder], alternates=9).selections
        left = [(selection.host, selection.node), *((other.host, other.node) for other in selection.alternates)]
    except NoValidHost:
        left = []
    assert (left, recorder.rounds) == (survivors, [] if asked is None else [asked])


def test_forcing_skips_filters_but_not_weighing():
    table = hosts_of(host=["a", "b", "c"], free_ram_mb=[1024, 4096, 8192])
    assert chosen(place(table, make_spec(force_hosts=["a", "b"]), weighers=[RAMWeigher()])) == ["b"]


def test_forcing_does_not_skip_capacity():
    table = hosts_of(host=["a", "b"], vcpus_total=[1, 64])
    decision = failure(table, make_spec(vcpus=2, force_hosts=["a"]))
    assert decision.rejected == {"force_hosts": 1, "vcpu": 1}


def test_a_named_destination_does_not_skip_capacity():
    table = hosts_of(host=["a", "b"], vcpus_total=[1, 64])
    decision = failure(table, make_spec(vcpus=2, requested_destination=Destination(host="a")))
    assert decision.rejected == {"requested_destination": 1, "vcpu": 1}


def test_a_disabled_host_cannot_be_forced():
    table = hosts_of(host=["a"], service=[{"disabled": True}])
    assert failure(table, make_spec(force_hosts=["a"])).rejected == {"disabled": 1}


# --- rebuild -----------------------------------------------------------------------------------------


def test_a_rebuild_skips_capacity_and_the_filters_without_the_flag():
    table = hosts_of(host=["a"], vcpus_total=[1], service=[{"disabled": True}])
    recorder, flagged = Recorder(), RebuildRecorder()
    spec = make_spec(vcpus=99, scheduler_hints=REBUILD)
    assert chosen(place(table, spec, [recorder, flagged, ComputeFilter()])) == ["a"]
    assert (recorder.rounds, flagged.rounds) == ([], [[("a", "a")]])


def test_what_a_rebuild_check_took_can_be_released():
    table = hosts_of(host=["a"])
    before = contents(table)
    (selection,) = place(table, make_spec(scheduler_hints=REBUILD)).selections
    table.release(0, selection.placed)
    assert contents(table) == before


def test_a_rebuild_has_no_limits_of_filters_that_did_not_run():
    (selection,) = place(hosts_of(host=["a"]), make_spec(scheduler_hints=REBUILD), [RamFilter()]).selections
    assert selection.limits == {}


# --- counts ------------------------------------------------------------------------------------------


class OnlyNamed(Recorder):
    def host_passes(self, host_state, spec_obj):
        return host_state.host in ("a", "b")


@pytest.mark.parametrize(
    ("fields", "rejected"),
    [
        ({"ignore_hosts": ["a"], "memory_mb": 2048}, {"ram": 3, "ignore_hosts": 1, "disabled": 1}),
        ({"vcpus": 99}, {"vcpu": 4, "disabled": 1}),
        ({"ignore_hosts": ["a", "b"]}, {"ignore_hosts": 2, "OnlyNamed": 2, "disabled": 1}),
        ({"num_instances": 3}, {"OnlyNamed": 2, "ram": 2, "disabled": 1}),
        ({"extra_specs": {"trait:CUSTOM_GOLD": "required"}}, {"traits": 4, "disabled": 1}),
        ({"extra_specs": {"resources:CUSTOM_GPU": "1"}}, {"CUSTOM_GPU": 4, "disabled": 1}),
    ],
)
def test_the_counts_of_a_failure_add_up_to_all_hosts(fields, rejected):
    table = hosts_of(
        host=["a", "b", "c", "d", "e"],
        total_usable_ram_mb=1024,
        service=[{}, {}, {}, {}, {"disabled": True}],
    )
    decision = failure(table, make_spec(**({"memory_mb": 600} | fields)), [OnlyNamed()])
    assert decision.rejected == rejected
    assert sum(decision.rejected.values()) == decision.hosts == 5


def test_each_step_starts_with_what_the_one_before_left():
    table = hosts_of(host=["a", "b", "c"], service=[{}, {"up": False}, {"disabled": True}])
    steps = place(table, make_spec(), [ComputeFilter(), OnlyNamed()]).steps
    assert [(step.stage, step.name, step.before, step.after) for step in steps] == [
        ("capacity", "disabled", 3, 2),
        ("capacity", "vcpu", 2, 2),
        ("capacity", "ram", 2, 2),
        ("filter", "ComputeFilter", 2, 1),
        ("filter", "OnlyNamed", 1, 1),
    ]


def test_a_failure_says_in_one_line_what_took_out_how_many():
    table = hosts_of(host=["a", "b", "c"], total_usable_ram_mb=[1024, 2048, 65536], service=[{}, {}, {"up": False}])
    decision = failure(table, make_spec(memory_mb=4096), [ComputeFilter()])
    assert decision.summary == "0 of 3 hosts fit: 2 ram (needs 4096 MiB, most free 2048), 1 ComputeFilter"


def test_the_error_is_the_summary():
    with pytest.raises(NoValidHost, match=r"^0 of 1 hosts fit: 1 vcpu"):
        place(hosts_of(host=["a"]), make_spec(vcpus=99))


def test_a_fleet_without_hosts_has_no_valid_host():
    assert failure(make_hosts(0), make_spec()).summary == "0 of 0 hosts fit: there are no hosts"


def test_the_shortage_of_a_later_instance_is_what_was_left_then():
    table = hosts_of(host=["a"], total_usable_ram_mb=3000)
    decision = failure(table, make_spec(memory_mb=2048, num_instances=2))
    assert (decision.failed_at, decision.summary) == (
        1,
        "0 of 1 hosts fit instance 2 of 2: 1 ram (needs 2048 MiB, most free 952)",
    )


def test_every_filter_is_asked_once_also_when_no_host_is_left():
    class RejectsAll(Recorder):
        def host_passes(self, host_state, spec_obj):
            return False

    first, last = Recorder(), RejectsAll()
    failure(hosts_of(host=["a"]), make_spec(), [first, last])
    assert (len(first.rounds), len(last.rounds)) == (1, 1)


# --- several instances -------------------------------------------------------------------------------


def test_the_second_instance_sees_what_the_first_took():
    table = hosts_of(host=["a", "b"], free_ram_mb=[5000, 4000])
    assert chosen(place(table, make_spec(memory_mb=2000, num_instances=3), weighers=[RAMWeigher()])) == [
        "a",
        "b",
        "a",
    ]


def test_each_instance_is_placed_on_the_survivors_of_the_one_before():
    class NotAtFirst(Recorder):
        """Rejects b in the first round only."""

        def host_passes(self, host_state, spec_obj):
            return host_state.host != "b" or len(self.rounds) > 1

    rule = NotAtFirst()
    place(hosts_of(host=["a", "b", "c"]), make_spec(num_instances=2), [rule])
    assert rule.rounds == [[("a", "a"), ("b", "b"), ("c", "c")], [("a", "a"), ("c", "c")]]


def test_the_survivors_come_in_their_order_of_preference():
    rule = Recorder()
    table = hosts_of(host=["a", "b", "c"], free_ram_mb=[1000, 3000, 2000])
    place(table, make_spec(memory_mb=1, num_instances=2), [rule], [RAMWeigher()])
    assert [host for host, _ in rule.rounds[1]] == ["b", "c", "a"]


def test_each_instance_is_filtered_under_its_own_uuid():
    seen = []

    class Uuids(Recorder):
        def host_passes(self, host_state, spec_obj):
            seen.append(spec_obj.instance_uuid)
            return True

    place(hosts_of(host=["a"]), make_spec(num_instances=3), [Uuids()])
    assert seen == ["i0", "i1", "i2"]


def test_each_selection_bears_the_uuid_of_its_instance():
    decision = place(hosts_of(host=["a"]), make_spec(num_instances=2))
    assert [each.instance_uuid for each in decision.selections] == ["i0", "i1"]


def test_the_hosts_of_a_group_grow_with_every_choice():
    seen = []

    class Apart(Recorder):
        def host_passes(self, host_state, spec_obj):
            seen.append(spec_obj.instance_group.hosts)
            return host_state.host not in spec_obj.instance_group.hosts

    spec = make_spec(num_instances=2, instance_group=ServerGroup("anti-affinity", hosts=["a"]))
    assert chosen(place(hosts_of(host=["a", "b", "c"]), spec, [Apart()])) == ["b", "c"]
    assert set(seen) == {("a",), ("a", "b")}


def test_the_chosen_instances_are_on_their_hosts():
    table = hosts_of(host=["a", "b"])
    place(table, make_spec(num_instances=2), weighers=[RAMWeigher()])
    assert [list(host.instances) for host in table.in_the_running()] == [["i0"], ["i1"]]


# --- all or nothing ----------------------------------------------------------------------------------


def test_the_worked_example_of_one_host_and_two_instances():
    table = hosts_of(host=["a"], total_usable_ram_mb=3000)
    before = contents(table)
    decision = failure(table, make_spec(memory_mb=2048, num_instances=2))
    assert (decision.selections, decision.failed_at, contents(table)) == ((), 1, before)


@pytest.mark.parametrize("hypervisor_type", ["QEMU", "ironic"])
def test_nothing_is_taken_when_a_later_instance_has_no_host(hypervisor_type):
    table = hosts_of(host=["a", "b"], free_ram_mb=4096, hypervisor_type=hypervisor_type)
    before = contents(table)
    failure(table, make_spec(memory_mb=3000, num_instances=3), [RamFilter()])
    assert contents(table) == before


class RaisesLater(Recorder):
    def host_passes(self, host_state, spec_obj):
        if len(self.rounds) == 3:
            raise ZeroDivisionError
        return True


def test_nothing_is_taken_when_a_filter_raises_for_a_later_instance():
    table = hosts_of(host=["a", "b"])
    before = contents(table)
    with pytest.raises(PluginFailed, match="RaisesLater failed"):
        place(table, make_spec(num_instances=3), [RaisesLater()])
    assert contents(table) == before


def test_nothing_is_taken_when_a_filter_raises_while_alternates_are_sought():
    table = hosts_of(host=["a", "b"])
    before = contents(table)
    with pytest.raises(PluginFailed):
        place(table, make_spec(num_instances=2), [RaisesLater()], alternates=1)
    assert contents(table) == before


def test_nothing_is_taken_when_a_weigher_raises_for_a_later_instance():
    class RaisesOnUsed(HostWeigher):
        def _weigh_object(self, host_state, weight_properties):
            return 1 / (1 - host_state.num_instances)

    table = hosts_of(host=["a", "b"])
    before = contents(table)
    with pytest.raises(PluginFailed, match="RaisesOnUsed failed on host a: ZeroDivisionError"):
        place(table, make_spec(num_instances=2), weighers=[RaisesOnUsed()])
    assert contents(table) == before


def test_nothing_is_taken_when_the_request_is_interrupted():
    class Interrupted(Recorder):
        def host_passes(self, host_state, spec_obj):
            if len(self.rounds) == 2:
                raise KeyboardInterrupt
            return True

    table = hosts_of(host=["a"])
    before = contents(table)
    with pytest.raises(KeyboardInterrupt):
        place(table, make_spec(num_instances=2), [Interrupted()])
    assert contents(table) == before


# --- alternates (spec/drivers-and-rpc.md 1.2) --------------------------------------------------------


def test_the_worked_example_of_alternates():
    table = make_hosts(
        host=["A", "B", "C", "D"],
        total_usable_ram_mb=[8000, 7000, 6000, 5000],
        vcpus_total=8,
        cell=["cell1", "cell1", "cell1", "cell2"],
    )
    decision = place(table, make_spec(memory_mb=2048, num_instances=2), [RamFilter()], [RAMWeigher()], alternates=2)
    assert with_alternates(decision) == [["A", "C"], ["B", "C"]]


def test_alternates_follow_in_order_of_weight():
    table = hosts_of(host=["a", "b", "c", "d"], free_ram_mb=[1000, 4000, 2000, 3000])
    decision = place(table, make_spec(), weighers=[RAMWeigher()], alternates=2)
    assert with_alternates(decision) == [["b", "d", "c"]]


@pytest.mark.parametrize(("wanted", "found"), [(0, 0), (1, 1), (2, 2), (9, 2)])
def test_fewer_alternates_than_wanted_will_do(wanted, found):
    (selection,) = place(hosts_of(host=["a", "b", "c"]), make_spec(), alternates=wanted).selections
    assert len(selection.alternates) == found


def test_alternates_of_many_hosts_are_those_of_the_full_order():
    table = hosts_of(host=[f"h{number:02}" for number in range(40)], free_ram_mb=[n * 7 % 40 for n in range(40)])
    spec = make_spec(memory_mb=0)
    (selection,) = place(table.copy(), spec, weighers=[RAMWeigher()], alternates=25).selections
    ranked = sorted(range(40), key=lambda at: -(at * 7 % 40))
    assert [selection.host, *(each.host for each in selection.alternates)] == [f"h{at:02}" for at in ranked[:26]]


def test_alternates_are_filtered_once_more_after_several_instances():
    rule, once = Recorder(), type("Once", (Recorder,), {"run_filter_once_per_request": True})()
    place(hosts_of(host=["a", "b"]), make_spec(num_instances=2), [rule, once], alternates=1)
    assert (len(rule.rounds), len(once.rounds)) == (3, 1)


def test_without_alternates_nothing_is_filtered_once_more():
    rule = Recorder()
    place(hosts_of(host=["a", "b"]), make_spec(num_instances=2), [rule], alternates=0)
    assert len(rule.rounds) == 2


def test_a_host_that_no_longer_fits_is_no_alternate():
    class FullWhenTwoAreTaken(Recorder):
        def host_passes(self, host_state, spec_obj):
            return host_state.host != "c" or len(spec_obj.instance_group.hosts) < 2

    table = hosts_of(host=["a", "b", "c", "d"], free_ram_mb=[4000, 3900, 3800, 3700])
    spec = make_spec(memory_mb=500, num_instances=2, instance_group=ServerGroup("soft-affinity"))
    decision = place(table, spec, [FullWhenTwoAreTaken()], [RAMWeigher()], alternates=2)
    assert with_alternates(decision) == [["a", "d"], ["b", "d"]]


def test_the_round_for_alternates_does_not_show_in_the_steps():
    class RejectsAllAtLast(Recorder):
        def host_passes(self, host_state, spec_obj):
            return len(self.rounds) < 3

    decision = place(hosts_of(host=["a", "b"]), make_spec(num_instances=2), [RejectsAllAtLast()], alternates=1)
    assert decision.rejected == {}
    assert with_alternates(decision) == [["a"], ["a"]]


# --- limits (spec/filters.md 9) ----------------------------------------------------------------------

LIMITING = [CoreFilter(), RamFilter(), DiskFilter()]


def limited_hosts(**more):
    return hosts_of(
        host=["a", "b"],
        vcpus_total=[4, 8],
        cpu_allocation_ratio=2.0,
        total_usable_ram_mb=1024,
        ram_allocation_ratio=1.5,
        total_usable_disk_gb=10,
        **more,
    )


def test_limits_travel_with_the_selection_and_its_alternates():
    (selection,) = place(limited_hosts(), make_spec(), LIMITING, alternates=1).selections
    assert selection.limits == {"vcpu": 8.0, "memory_mb": 1536.0, "disk_gb": 10.0}
    assert selection.alternates[0].limits == {"vcpu": 16.0, "memory_mb": 1536.0, "disk_gb": 10.0}


def test_only_enabled_filters_set_limits():
    (selection,) = place(limited_hosts(), make_spec(), [RamFilter()]).selections
    assert selection.limits == {"memory_mb": 1536.0}


def test_forced_hosts_have_no_limits():
    (selection,) = place(limited_hosts(), make_spec(force_hosts=["a", "b"]), LIMITING, alternates=1).selections
    assert (selection.limits, selection.alternates[0].limits) == ({}, {})


def test_limits_are_plain_python_numbers():
    (selection,) = place(limited_hosts(), make_spec(), LIMITING).selections
    assert {type(value) for value in selection.limits.values()} == {float}


def test_what_a_filter_wrote_on_the_chosen_host_is_among_its_limits():
    class Writes(Recorder):
        def host_passes(self, host_state, spec_obj):
            host_state.limits["bandwidth"] = 10 if host_state.host == "a" else 20
            return True

    (selection,) = place(limited_hosts(), make_spec(), [RamFilter(), Writes()], alternates=1).selections
    assert selection.limits == {"memory_mb": 1536.0, "bandwidth": 10}
    assert selection.alternates[0].limits == {"memory_mb": 1536.0, "bandwidth": 20}


# --- choosing ----------------------------------------------------------------------------------------

EQUALS = {"host": ["a", "b", "c", "d"], "free_ram_mb": [4000, 3000, 3000, 1000]}


def choose(seed, **choice):
    table = hosts_of(**EQUALS)
    return chosen(place(table, make_spec(memory_mb=0), weighers=[RAMWeigher()], choice=Choice(**choice), seed=seed))[
        0
    ]


def test_the_best_host_is_chosen_whatever_the_seed():
    assert {choose(seed) for seed in range(20)} == {"a"}


def test_a_tie_goes_to_the_first_by_host_and_node():
    table = hosts_of(host=["b", "a", "a"], node=["n0", "n2", "n1"])
    (selection,) = place(table, make_spec(), weighers=[RAMWeigher()]).selections
    assert (selection.host, selection.node) == ("a", "n1")


def test_the_same_seed_makes_the_same_choices():
    runs = [
        chosen(
            place(
                hosts_of(host=[f"h{number}" for number in range(50)]),
                make_spec(num_instances=20),
                weighers=[RAMWeigher()],
                choice=Choice(host_subset_size=10, shuffles_best=True),
                seed=seed,
            )
        )
        for seed in (7, 7, 8)
    ]
    assert runs[0] == runs[1] != runs[2]


def test_a_subset_of_2_gives_each_of_the_two_best_half_of_the_requests():
    counts = Counter(choose(seed, host_subset_size=2) for seed in range(1000))
    assert set(counts) == {"a", "b"}
    assert 450 <= counts["a"] <= 550


def test_shuffling_gives_each_of_the_best_equals_its_share():
    table = {"host": ["a", "b", "c", "d"], "free_ram_mb": [3000, 1000, 3000, 3000]}
    choice = Choice(shuffles_best=True)
    counts = Counter(
        chosen(place(hosts_of(**table), make_spec(memory_mb=0), weighers=[RAMWeigher()], choice=choice, seed=seed))[0]
        for seed in range(900)
    )
    assert set(counts) == {"a", "c", "d"}
    assert all(250 <= count <= 350 for count in counts.values())


def test_a_host_picked_from_the_subset_is_followed_by_the_others_in_order():
    table = hosts_of(**EQUALS)
    for seed in range(20):
        decision = place(
            table.copy(),
            make_spec(memory_mb=0),
            weighers=[RAMWeigher()],
            choice=Choice(host_subset_size=4),
            seed=seed,
            alternates=3,
        )
        ((first, *others),) = with_alternates(decision)
        assert others == [host for host in "abcd" if host != first]


# --- the decision ------------------------------------------------------------------------------------


def test_the_best_five_hosts_are_shown_best_first():
    table = hosts_of(host=list("abcdefgh"), free_ram_mb=[1, 8, 3, 7, 5, 6, 4, 2])
    decision = place(table, make_spec(memory_mb=0), weighers=[RAMWeigher()])
    assert [each.host for each in decision.best] == ["b", "d", "f", "e", "g"]


def test_a_selection_shows_what_each_weigher_said_of_it():
    table = hosts_of(host=["a", "b"], free_ram_mb=[1024, 4096])
    (selection,) = place(table, make_spec(memory_mb=512), weighers=[RAMWeigher()]).selections
    score = selection.ranked.scores["RAMWeigher"]
    assert (selection.ranked.weight, score.raw, score.normalised, score.multiplier) == (1.0, 4096.0, 1.0, 1.0)


def test_a_single_host_has_no_scores():
    (selection,) = place(hosts_of(host=["a"]), make_spec(), weighers=[RAMWeigher()]).selections
    assert (selection.ranked.weight, selection.ranked.scores) == (0.0, {})


def test_the_time_of_the_stages_adds_up_to_the_total():
    ticks = itertools.count(step=1000)
    decision = place(hosts_of(host=["a", "b"]), make_spec(), [ComputeFilter()], [RAMWeigher()], clock=ticks.__next__)
    stages = {name: spent for name, spent in decision.time_us.items() if name != "total"}
    assert list(stages) == ["prefilter", "capacity", "filter", "weigh", "choose"]
    assert decision.time_us["total"] == sum(stages.values()) > 0


def test_the_decision_counts_hosts_and_instances():
    decision = place(hosts_of(host=["a", "b", "c"]), make_spec(num_instances=2), weighers=[RAMWeigher()])
    assert (decision.hosts, decision.wanted, decision.weighers, decision.is_placed) == (3, 2, ("RAMWeigher",), True)
