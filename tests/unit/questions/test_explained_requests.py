# SPDX-License-Identifier: Apache-2.0
"""Explanations of requests and hosts, on small fleets whose numbers are in the test."""

import pytest

from roost import Fleet, Scheduler
from roost.errors import UnknownName
from roost.filters.base import HostFilter
from roost.model import Destination, ServerGroup
from roost.model.json_records import to_json
from roost.model.resources import AllocationCandidate, AllocationCandidates
from roost.questions.blockers import find_blockers
from roost.questions.explain import explain_host, explain_request
from roost.questions.funnel import find_explained_instance
from roost.scheduler.pipeline import Pipeline
from roost.scheduler.search import Choice
from roost.testing import make_hosts, make_spec
from roost.weighers.ram import RAMWeigher

FLEET = Fleet.load(
    {
        "hosts": [
            {"host": "node-1", "vcpus_total": 8, "total_usable_ram_mb": 8192, "traits": ["CUSTOM_GOLD"]},
            {"host": "node-2", "vcpus_total": 8, "total_usable_ram_mb": 16384},
            {"host": "node-3", "vcpus_total": 2, "total_usable_ram_mb": 16384, "service": {"disabled": True}},
            {"host": "node-4", "vcpus_total": 8, "total_usable_ram_mb": 65536, "service": {"up": False}},
        ],
        "aggregates": [
            {"name": "one", "hosts": ["node-1"], "metadata": {"availability_zone": "az-1", "ssd": "true"}},
            {"name": "two", "hosts": ["node-[2-4]"], "metadata": {"availability_zone": "az-2"}},
        ],
    }
)
FILTERS = [
    *("ComputeFilter", "AvailabilityZoneFilter", "AggregateInstanceExtraSpecsFilter", "ImagePropertiesFilter"),
    *("ServerGroupAntiAffinityFilter", "ServerGroupAffinityFilter"),
]


def scheduler():
    return Scheduler(FLEET, options={"filter_scheduler": {"enabled_filters": FILTERS}})


def explain(**fields):
    return scheduler().explain(make_spec(**fields))


def texts(explanation):
    return [each.text for each in explanation.misses]


def lifted(explanation):
    return {each.checks: each.hosts for each in explanation.lifts}


# --- what would help -------------------------------------------------------------------------------------


def test_each_check_without_which_it_fits_is_a_lift_with_its_hosts():
    explanation = explain(memory_mb=16385)
    assert lifted(explanation) == {("ram",): 2, ("ComputeFilter",): 1}
    assert [each.examples for each in explanation.lifts] == [("node-1", "node-2"), ("node-4",)]


def test_checks_that_ask_for_the_same_thing_are_lifted_together():
    explanation = explain(memory_mb=9000, availability_zone="az-1")
    assert lifted(explanation) == {("availability_zone", "AvailabilityZoneFilter"): 1, ("ram",): 1}


def test_where_no_single_check_suffices_the_smallest_set_is_told():
    explanation = explain(memory_mb=70000, extra_specs={"trait:CUSTOM_GOLD": "required"}, availability_zone="az-2")
    subjects = {each.subjects for each in explanation.lifts}
    assert subjects == {("availability_zone", "ram"), ("ram", "traits")}


def test_a_request_that_is_no_longer_forced_is_put_to_all_filters():
    explanation = explain(memory_mb=9000, force_hosts=["node-1"])
    assert lifted(explanation)["force_hosts",] == 1  # node-2: node-4 is down, which ComputeFilter tells


def test_nothing_is_lifted_for_a_request_that_fits():
    explanation = explain(memory_mb=512)
    assert (explanation.lifts, explanation.misses) == ((), ())


# --- nearest misses --------------------------------------------------------------------------------------


def test_the_nearest_miss_of_an_amount_is_the_host_with_most_of_it_that_passes_everything_else():
    miss = explain(memory_mb=65537).misses[0]
    assert miss.text == "needs 65,537 MiB of memory; most free is 16,384 on node-2, which passes everything else"
    assert (miss.host, miss.check, miss.only_obstacle) == ("node-2", "ram", 2)


def test_where_all_hosts_have_other_obstacles_the_nearest_of_all_is_told():
    miss = next(each for each in explain(memory_mb=65537, availability_zone="az-9").misses if each.check == "ram")
    assert miss.text == "needs 65,537 MiB of memory; most free is 65,536 on node-4, which fails other checks, too"


def test_what_one_instance_may_take_at_most_is_told_where_more_is_free():
    assert (
        "needs 9 CPUs; the most that one instance may take is 8, on node-1, which passes"
        in texts(explain(vcpus=9))[0]
    )


def test_a_resource_class_that_no_host_has():
    told = texts(explain(extra_specs={"resources:CUSTOM_FPGA": "1"}))[0]
    assert told == "needs 1 CUSTOM_FPGA; no host has any"


def test_an_unknown_zone_is_told_with_the_nearest():
    assert texts(explain(availability_zone="az-12"))[0] == "zone az-12 does not exist; did you mean az-2?"


def test_a_known_zone_is_told_with_what_rejects_its_hosts_each_of_which_counts_once():
    """D33: the numbers were those of all hosts that a check would reject, and did not add up to those of the zone."""
    told = texts(explain(availability_zone="az-2", memory_mb=20000))
    assert "zone az-2 has 3 hosts, rejected by disabled or down (2) and ram (1)" in told
    told = texts(explain(availability_zone="az-2", memory_mb=70000, vcpus=9))
    assert "zone az-2 has 3 hosts, rejected by vcpu (2) and disabled or down (1), also by ram" in told


def test_of_many_reasons_in_a_zone_the_rest_is_counted_in_hosts():
    """D33: what follows the numbers of hosts was the number of checks."""
    hosts = [
        *({"vcpus_total": 1}, {"total_usable_ram_mb": 1}, {"total_usable_disk_gb": 1}),
        *({"service": {"up": False}}, {"num_io_ops": 99}, {"num_io_ops": 99}),
    ]
    fleet = {
        "hosts": [
            {"host": f"h{at}", "vcpus_total": 9, "total_usable_ram_mb": 9000, "total_usable_disk_gb": 99} | own
            for at, own in enumerate(hosts)
        ],
        "aggregates": [{"name": "az", "hosts": ["h[0-5]"], "metadata": {"availability_zone": "az"}}],
    }
    fleet["hosts"].append({"host": "elsewhere"})
    enabled = {"filter_scheduler": {"enabled_filters": [*FILTERS, "IoOpsFilter"]}}
    spec = make_spec(vcpus=2, memory_mb=512, root_gb=9, availability_zone="az")
    (told,) = [each for each in texts(Scheduler(Fleet.load(fleet), options=enabled).explain(spec)) if "zone" in each]
    assert told == "zone az has 6 hosts, rejected by IoOpsFilter (2), vcpu (1), ram (1) and others (2)"


def test_an_unknown_trait_is_told_with_the_nearest():
    told = texts(explain(extra_specs={"trait:CUSTOM_GOOD": "required"}))[0]
    assert told == "no host has the trait CUSTOM_GOOD; did you mean CUSTOM_GOLD?"


def test_an_unknown_key_of_aggregates_is_told_with_the_nearest():
    told = texts(explain(extra_specs={"aggregate_instance_extra_specs:sdd": "true"}))[0]
    assert told == "no aggregate with hosts has the key sdd; did you mean ssd?"


def test_a_value_that_no_aggregate_has_is_told_with_those_there_are():
    told = texts(explain(extra_specs={"aggregate_instance_extra_specs:ssd": "false"}))[0]
    assert told == "asked: ssd false; the aggregates say true"


def test_a_named_host_that_does_not_exist_is_told_with_the_nearest():
    told = texts(explain(requested_destination=Destination(host="node-11")))[0]
    assert told.startswith("the request is for node-11, which is no host here; did you mean node-")


def test_a_named_host_is_told_with_what_rejects_it():
    told = texts(explain(requested_destination=Destination(host="node-3"), vcpus=3))
    assert "the request is for node-3, which disabled and vcpu reject" in told


def test_the_remedy_of_a_named_host_is_about_a_host_that_was_not_named():
    misses = {each.subject: each for each in explain(memory_mb=9000, force_hosts=["node-1"]).misses}
    assert misses["force_hosts"].host == "node-1"
    assert "node-2" in misses["force_hosts"].remedy.text


def test_an_affinity_group_is_told_with_what_rejects_its_host():
    told = texts(explain(memory_mb=9000, instance_group=ServerGroup("affinity", "pair", hosts=("node-1",))))
    assert "the group pair is on node-1, which ram rejects" in told


def test_an_image_that_no_host_runs_is_told_by_the_reason_for_the_nearest_host():
    told = texts(explain(image={"hw_architecture": "aarch64"}))[0]
    assert told == "node-1: aarch64 asked; the host offers nothing"


def test_disabled_and_down_hosts_are_counted():
    told = texts(explain(memory_mb=20000))
    assert "1 host disabled and 1 host down in all; of node-4: the compute service is down" in told


# --- several instances -----------------------------------------------------------------------------------


def test_of_several_instances_those_that_fit_are_counted_and_the_next_is_explained():
    group = ServerGroup("anti-affinity", "web")
    explanation = explain(num_instances=5, instance_group=group)
    assert (explanation.fits, explanation.wanted, explanation.placed) == (False, 5, 2)
    assert "anti-affinity group web of 5, with one member per host, but only 2 hosts pass the rest" in texts(
        explanation
    )
    assert sum(each.hosts for each in explanation.reasons) == 4


def test_what_the_instances_before_took_is_told_of_the_next():
    explanation = explain(num_instances=4, memory_mb=8192)
    assert explanation.placed == 3
    told = "needs 8,192 MiB of memory; most free is 0 on node-1, which passes everything else"
    assert told in texts(explanation)


def test_asking_about_several_instances_takes_nothing():
    asked = scheduler()
    before = asked.table.changes.version, asked.table.free_ram_mb.tolist()
    asked.explain(make_spec(num_instances=4, memory_mb=8192))
    assert (asked.table.changes.version, asked.table.free_ram_mb.tolist()) == before


# --- a request that fits ---------------------------------------------------------------------------------


def test_the_winner_is_told_with_its_scores_its_margin_and_the_alternates():
    explanation = explain(memory_mb=512)
    winner, second = explanation.best
    assert [(each.rank, each.host) for each in explanation.best] == [(1, "node-2"), (2, "node-1")]
    assert winner.weight == pytest.approx(sum(each.contribution for each in winner.scores))
    assert explanation.margin == winner.weight - second.weight > 0
    assert explanation.alternates == ("node-1",)
    assert {each.host for each in explanation.rejections} == {"node-3", "node-4"}


def test_how_many_of_the_best_chance_picks_among_is_told():
    pipeline = Pipeline([], [], Choice(host_subset_size=9), checks_capacity=False)
    assert explain_request(pipeline, make_hosts(3), make_spec()).picks_among == 3
    shuffling = Pipeline([], [RAMWeigher()], Choice(shuffles_best=True), checks_capacity=False)
    hosts = make_hosts(total_usable_ram_mb=[64, 64, 32])
    assert explain_request(shuffling, hosts, make_spec()).picks_among == 2


def test_an_explanation_is_data():
    record = to_json(explain(memory_mb=65537))
    assert record["fits"] is False
    assert record["steps"][0] == {"stage": "capacity", "name": "disabled", "before": 4, "after": 3}
    assert record["lifts"][0]["checks"] == ["ram"]
    assert record["misses"][0]["remedy"]["changes"] == [{"field": "flavor.memory_mb", "value": 16384}]


# --- one host --------------------------------------------------------------------------------------------


def test_a_host_is_told_everything_that_rejects_it_not_only_the_first():
    told = scheduler().explain_host(make_spec(vcpus=3, memory_mb=20000, availability_zone="az-1"), "node-3")
    assert [(each.name, each.is_first) for each in told.blockers] == [
        ("availability_zone", True),
        ("disabled", False),
        ("vcpu", False),
        ("ram", False),
        ("ComputeFilter", False),
        ("AvailabilityZoneFilter", False),
    ]
    assert told.blockers[2].reason == "3 vcpu asked; one instance may take 2 at most"
    assert told.own is None


def test_a_host_that_lost_is_told_by_which_weigher():
    told = scheduler().explain_host(make_spec(memory_mb=512), "node-1")
    assert (told.own.rank, told.fitting, told.winner.host, told.decided_by) == (2, 2, "node-2", "RAMWeigher")
    assert told.differences[0].lead == told.winner.weight - told.own.weight


def test_the_winner_is_told_that_it_won():
    told = scheduler().explain_host(make_spec(memory_mb=512), "NODE-2")
    assert (told.is_winner, told.blockers, told.differences) == (True, (), ())


def test_an_unknown_host_is_refused_with_the_nearest_name():
    with pytest.raises(UnknownName, match=r"unknown host 'node_1' \(did you mean node-1\?\)"):
        scheduler().explain_host(make_spec(), "node_1")


def test_a_host_with_several_nodes_needs_the_name_of_one():
    fleet = Fleet.load({"hosts": [{"host": "a", "node": node, "vcpus_total": 1} for node in ("n1", "n2")]})
    with pytest.raises(UnknownName, match="name one of them: n1, n2"):
        Scheduler(fleet).explain_host(make_spec(), "a")
    with pytest.raises(UnknownName, match=r"host a has no node 'n3' \(known: n1, n2\)"):
        Scheduler(fleet).explain_host(make_spec(), "a", "n3")
    assert Scheduler(fleet).explain_host(make_spec(), "a", "n2").node == "n2"


# --- people's own filters --------------------------------------------------------------------------------


class Never(HostFilter):
    """Says no."""

    def host_passes(self, host_state, spec_obj):
        return False


class FailsOnSmall(HostFilter):
    """Raises an error about hosts with little memory."""

    def host_passes(self, host_state, spec_obj):
        if host_state.total_usable_ram_mb < 1024:
            raise KeyError("small")
        return host_state.host != "c"


def test_a_plugin_is_told_by_name_and_reason_without_a_remedy():
    pipeline = Pipeline([Never()], [], checks_capacity=False)
    table = make_hosts(host=["a"])
    (blocker,) = explain_host(pipeline, table, make_spec(), 0).blockers
    assert (blocker.name, blocker.reason, blocker.is_plugin, blocker.remedy) == ("Never", "Never said no", True, None)
    (miss,) = explain_request(pipeline, table, make_spec()).misses
    assert (miss.text, miss.remedy) == ("a: Never said no", None)


def test_an_error_about_a_host_that_another_check_rejects_hides_nothing():
    table = make_hosts(host=["a", "b", "c", "d"], total_usable_ram_mb=[512, 4096, 4096, 4096], vcpus_total=8)
    pipeline = Pipeline([FailsOnSmall()], [])
    assert [each.name for each in explain_request(pipeline, table, make_spec(memory_mb=2048)).rejections] == [
        "ram",
        "FailsOnSmall",
    ]
    ram, plugin = explain_host(pipeline, table, make_spec(memory_mb=2048), 0).blockers
    assert (ram.name, plugin.name) == ("ram", "FailsOnSmall")
    assert plugin.reason.startswith("could not be asked: FailsOnSmall failed on host a: KeyError")
    found = find_blockers(find_explained_instance(pipeline, table, make_spec(memory_mb=2048)))
    assert [mask.tolist() for mask in found.masks if mask.any()] == [
        [True, False, False, False],
        [True, False, True, False],
    ]


class Speechless(HostFilter):
    """Rejects, and cannot say why."""

    def host_passes(self, host_state, spec_obj):
        return False

    def reason(self, host, spec_obj):
        raise KeyError("no words")


def test_a_plugin_without_words_for_a_host_that_another_check_rejects_hides_nothing():
    table = make_hosts(host=["a"], total_usable_ram_mb=512, vcpus_total=8)
    explanation = explain_request(Pipeline([Speechless()], []), table, make_spec(memory_mb=2048))
    assert [each.name for each in explanation.rejections] == ["ram"]
    assert "a: gives no reason: Speechless failed on host a: KeyError: 'no words'" in texts(explanation)[1]


# --- what checks note on hosts ---------------------------------------------------------------------------


class Needs(HostFilter):
    """Narrows the allocation candidates of a host to one."""

    def __init__(self, provider):
        super().__init__()
        self.provider = provider

    @property
    def name(self):
        return f"Needs{self.provider}"

    def host_passes(self, host_state, spec_obj):
        kept = [each for each in host_state.allocation_candidates if self.provider in each.allocations]
        host_state.allocation_candidates = kept
        return bool(kept)


def offering(table, *providers_by_row):
    """A request for which placement offers candidates from these providers on each host."""
    by_node = {
        table.one(row).view_of(row).uuid: tuple(AllocationCandidate({each: {"VCPU": 1}}, {}) for each in providers)
        for row, providers in enumerate(providers_by_row)
    }
    free = {(each, "VCPU"): 1 for providers in providers_by_row for each in providers}
    return make_spec().changed(candidates=AllocationCandidates(by_node, free))


def test_a_check_is_put_to_hosts_without_what_another_one_noted_there():
    table = make_hosts(host=["a", "b", "c"])
    pipeline = Pipeline([Needs("P"), Needs("Q")], [])
    spec = offering(table, ["P"], ["P", "Q"], [])
    found = {row: [each.name for each in explain_host(pipeline, table, spec, row).blockers] for row in (0, 2)}
    assert found[0] == ["NeedsQ"]
    assert "placement" in found[2]


def test_checks_that_only_together_leave_no_candidate_name_the_one_that_rejects():
    table = make_hosts(host=["a"])
    told = explain_host(Pipeline([Needs("P"), Needs("Q")], []), table, offering(table, ["P", "Q"]), 0)
    assert [(each.name, each.is_first) for each in told.blockers] == [("NeedsQ", True)]
    lifts = explain_request(Pipeline([Needs("P"), Needs("Q")], []), table, offering(table, ["P", "Q"])).lifts
    assert {each.checks: each.hosts for each in lifts} == {("NeedsP",): 1, ("NeedsQ",): 1}


def test_a_check_rejects_no_fewer_hosts_in_all_than_it_rejects_first():
    """D33: a host without candidates because of an earlier check did not count."""
    table = make_hosts(host=["a"])
    found = explain_request(Pipeline([Needs("P"), Needs("Q")], []), table, offering(table, ["P", "Q"]))
    assert [(each.name, each.hosts, each.hosts_in_all) for each in found.reasons] == [("NeedsQ", 1, 1)]


def test_hosts_with_several_nodes_are_told_apart():
    """D33: three hosts, and one name three times."""
    table = make_hosts(host=["metal"] * 3, node=["n1", "n2", "n3"], traits=[[]] * 3, vcpus_total=[8] * 3)
    (lift,) = explain_request(
        Pipeline([], []), table, make_spec(memory_mb=0, extra_specs={"trait:GOLD": "required"})
    ).lifts
    assert lift.examples == ("metal (node n1)", "metal (node n2)", "metal (node n3)")


def test_a_fleet_without_hosts_is_explained():
    explanation = explain_request(Pipeline([], []), make_hosts(0), make_spec())
    assert (explanation.fits, explanation.hosts, explanation.rejections) == (False, 0, ())
