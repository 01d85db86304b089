# SPDX-License-Identifier: Apache-2.0
"""The door for programs: `from roost import Fleet, Flavor, RequestSpec, Scheduler`."""

import uuid
from pathlib import Path

import pytest

from roost import Flavor, Fleet, NoValidHost, RequestSpec, Scheduler, ServerGroup
from roost.errors import OptionError, PluginFailed, PluginNotFound, UnknownName, UnsupportedPolicy
from roost.filters.base import HostFilter

FLEET = """
hosts:
  - host: node-[1-3]
    vcpus_total: 16
    total_usable_ram_mb: 8192
    total_usable_disk_gb: 100
"""
SMALL = Flavor(vcpus=2, memory_mb=2048, root_gb=20)
COMPUTE_ONLY = {"filter_scheduler": {"enabled_filters": ["ComputeFilter"]}}
REBUILD = {"_nova_check_type": ["rebuild"]}


def fleet_of(count=3, **more):
    host = {"vcpus_total": 16, "total_usable_ram_mb": 8192, "total_usable_disk_gb": 100} | more
    return Fleet.load({"hosts": [{"host": f"node-{number}", **host} for number in range(1, count + 1)]})


def with_options(fleet, seed=1, **filter_scheduler):
    return Scheduler(fleet, options={"filter_scheduler": {"enabled_filters": [], **filter_scheduler}}, seed=seed)


def free_ram(scheduler):
    return scheduler.table.free_ram_mb.tolist()


# --- the door ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("as_given", [str, Path])
def test_the_readme_in_ten_lines(tmp_path, as_given):
    path = tmp_path / "fleet.yaml"
    path.write_text(FLEET)
    fleet = Fleet.load(as_given(path))
    scheduler = Scheduler(fleet, options=COMPUTE_ONLY, seed=1)
    decision = scheduler.place(RequestSpec(flavor=SMALL, num_instances=3))
    assert [selection.host for selection in decision.selections] == ["node-1", "node-2", "node-3"]
    scheduler.release(decision.selections[0])
    assert free_ram(scheduler) == [8192, 6144, 6144]


def test_a_fleet_may_be_a_dict():
    scheduler = Scheduler(fleet_of(2), options=COMPUTE_ONLY, seed=1)
    assert scheduler.place(RequestSpec(flavor=SMALL)).selections[0].host == "node-1"


def test_a_scheduler_needs_no_options():
    assert Scheduler(fleet_of(1)).place(RequestSpec(flavor=SMALL)).is_placed


def test_what_was_placed_counts_for_the_next_request():
    scheduler = with_options(fleet_of(2))
    hosts = [scheduler.place(RequestSpec(flavor=SMALL)).selections[0].host for _ in range(4)]
    assert hosts == ["node-1", "node-2", "node-1", "node-2"]


def test_a_request_that_fails_takes_nothing_and_the_next_one_is_served():
    scheduler = with_options(fleet_of(1))
    with pytest.raises(NoValidHost) as caught:
        scheduler.place(RequestSpec(flavor=SMALL, num_instances=5))
    assert caught.value.decision.failed_at == 4
    assert free_ram(scheduler) == [8192]
    assert scheduler.place(RequestSpec(flavor=SMALL)).is_placed


# --- uuids and seeds ---------------------------------------------------------------------------------


def test_every_instance_gets_a_uuid_of_its_own():
    selections = with_options(fleet_of()).place(RequestSpec(flavor=SMALL, num_instances=3)).selections
    uuids = {uuid.UUID(each.instance_uuid) for each in selections}
    assert (len(uuids), {each.version for each in uuids}) == (3, {4})


def test_the_uuid_of_the_request_is_that_of_its_first_instance():
    spec = RequestSpec(flavor=SMALL, num_instances=2, instance_uuid="i1")
    first, second = with_options(fleet_of()).place(spec).selections
    assert first.instance_uuid == "i1" != second.instance_uuid


@pytest.mark.parametrize(("seed", "is_same"), [(7, True), (8, False)])
def test_the_same_seed_makes_the_same_decisions_with_the_same_uuids(seed, is_same):
    def run(seed):
        scheduler = with_options(fleet_of(20), seed, host_subset_size=10)
        decisions = [scheduler.place(RequestSpec(flavor=SMALL, num_instances=2)) for _ in range(5)]
        return [(each.host, each.instance_uuid) for decision in decisions for each in decision.selections]

    assert (run(7) == run(seed)) is is_same


# --- release -----------------------------------------------------------------------------------------


def test_what_is_released_can_be_placed_again():
    scheduler = with_options(fleet_of(1))
    selections = scheduler.place(RequestSpec(flavor=SMALL, num_instances=4)).selections
    scheduler.release(selections[2])
    assert scheduler.place(RequestSpec(flavor=SMALL)).is_placed


def test_releasing_everything_leaves_the_fleet_as_it_was():
    scheduler = with_options(fleet_of())
    before = {name: column.tolist() for name, column in scheduler.table.numbers.items()}
    for selection in scheduler.place(RequestSpec(flavor=SMALL, num_instances=5)).selections:
        scheduler.release(selection)
    assert {name: column.tolist() for name, column in scheduler.table.numbers.items()} == before


def test_releasing_twice_is_an_error_and_gives_nothing_back():
    scheduler = with_options(fleet_of(1))
    (selection,) = scheduler.place(RequestSpec(flavor=SMALL)).selections
    scheduler.release(selection)
    with pytest.raises(UnknownName, match=f"instance {selection.instance_uuid} holds nothing here"):
        scheduler.release(selection)
    assert free_ram(scheduler) == [8192]


def test_what_another_scheduler_placed_cannot_be_released_here():
    fleet = fleet_of(1)
    (selection,) = with_options(fleet, seed=1).place(RequestSpec(flavor=SMALL)).selections
    with pytest.raises(UnknownName):
        with_options(fleet, seed=2).release(selection)


def test_an_instance_that_moved_is_released_where_it_was_and_stays_where_it_is():
    scheduler = with_options(fleet_of(2))
    (old,) = scheduler.place(RequestSpec(flavor=SMALL, instance_uuid="i1")).selections
    (new,) = scheduler.place(RequestSpec(flavor=SMALL, instance_uuid="i1")).selections
    assert (old.host, new.host) == ("node-1", "node-2")
    scheduler.release(old)
    assert free_ram(scheduler) == [8192, 6144]
    scheduler.release(new)
    assert free_ram(scheduler) == [8192, 8192]


def test_an_instance_resized_on_its_host_holds_both_sizes_until_one_is_released():
    scheduler = with_options(fleet_of(1))
    (old,) = scheduler.place(RequestSpec(flavor=SMALL, instance_uuid="i1")).selections
    scheduler.place(RequestSpec(flavor=Flavor(vcpus=1, memory_mb=1024), instance_uuid="i1"))
    assert free_ram(scheduler) == [5120]
    scheduler.release(old)
    assert free_ram(scheduler) == [7168]


def test_a_rebuild_check_leaves_what_the_instance_holds_alone():
    scheduler = with_options(fleet_of(1))
    (placed,) = scheduler.place(RequestSpec(flavor=SMALL, instance_uuid="i1")).selections
    scheduler.place(RequestSpec(flavor=SMALL, instance_uuid="i1", scheduler_hints=REBUILD))
    assert free_ram(scheduler) == [6144]
    scheduler.release(placed)
    assert free_ram(scheduler) == [8192]


def test_a_rebuild_check_took_nothing_that_could_be_released():
    scheduler = with_options(fleet_of(1))
    (checked,) = scheduler.place(RequestSpec(flavor=SMALL, scheduler_hints=REBUILD)).selections
    with pytest.raises(UnknownName):
        scheduler.release(checked)


# --- two schedulers ----------------------------------------------------------------------------------


def test_two_schedulers_on_one_fleet_do_not_see_one_another():
    fleet = fleet_of(2)
    one, other = with_options(fleet), with_options(fleet)
    one.place(RequestSpec(flavor=SMALL, num_instances=2))
    assert (free_ram(one), free_ram(other)) == ([6144, 6144], [8192, 8192])


def test_a_scheduler_does_not_change_its_fleet():
    fleet = fleet_of(1)
    with_options(fleet).place(RequestSpec(flavor=SMALL))
    assert fleet.table.free_ram_mb.tolist() == [8192]


# --- alternates --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "alternates", "named"),
    [
        pytest.param({}, None, 2, id="max_attempts is 3"),
        pytest.param({"scheduler": {"max_attempts": 1}}, None, 0, id="max_attempts 1"),
        pytest.param({"scheduler": {"max_attempts": 4}}, None, 3, id="max_attempts 4"),
        pytest.param({"DEFAULT": {"scheduler_max_attempts": 4}}, None, 3, id="by its old name"),
        pytest.param({}, 0, 0, id="none asked"),
        pytest.param({}, 4, 4, id="four asked"),
    ],
)
def test_there_are_as_many_alternates_as_attempts_after_the_first(options, alternates, named):
    scheduler = Scheduler(fleet_of(9), options=options, seed=1)
    (selection,) = scheduler.place(RequestSpec(flavor=SMALL), alternates).selections
    assert len(selection.alternates) == named


# --- server groups -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "enforcer"),
    [
        ("affinity", "ServerGroupAffinityFilter"),
        ("anti-affinity", "ServerGroupAntiAffinityFilter"),
        ("soft-affinity", "ServerGroupSoftAffinityWeigher"),
        ("soft-anti-affinity", "ServerGroupSoftAntiAffinityWeigher"),
    ],
)
def test_a_policy_that_nothing_enforces_is_refused(policy, enforcer):
    scheduler = with_options(fleet_of(1), weight_classes=[])
    spec = RequestSpec(flavor=SMALL, instance_group=ServerGroup(policy, name="web"))
    with pytest.raises(UnsupportedPolicy, match=f"web has the policy {policy}, which {enforcer} enforces") as caught:
        scheduler.place(spec)
    assert caught.value.hint == f"{enforcer} is not enabled"
    with pytest.raises(UnsupportedPolicy):
        scheduler.explain(spec)
    assert free_ram(scheduler) == [8192]


@pytest.mark.parametrize("policy", [None, "legacy"])
def test_a_group_without_a_policy_to_keep_is_placed_like_any_other(policy):
    scheduler = with_options(fleet_of(1), weight_classes=[])
    assert scheduler.place(RequestSpec(flavor=SMALL, instance_group=ServerGroup(policy))).is_placed


class Apart:
    """Requests of one anti-affinity group, one after the other."""

    def __init__(self, **group):
        self.scheduler = with_options(fleet_of(3), enabled_filters=["ServerGroupAntiAffinityFilter"])
        self.spec = RequestSpec(flavor=SMALL, instance_group=ServerGroup("anti-affinity", **group))

    def place(self):
        return self.scheduler.place(self.spec).selections[0]


@pytest.mark.parametrize("known_by", [{"uuid": "group-1"}, {"name": "web"}])
def test_members_placed_before_are_members(known_by):
    apart = Apart(**known_by)
    assert [apart.place().host for _ in range(3)] == ["node-1", "node-2", "node-3"]
    with pytest.raises(NoValidHost):
        apart.place()


def test_a_member_that_was_released_is_one_no_more():
    apart = Apart(uuid="group-1")
    first, *_ = [apart.place() for _ in range(3)]
    apart.scheduler.release(first)
    assert apart.place().host == "node-1"


def test_groups_do_not_mix():
    apart = Apart(uuid="group-1")
    apart.place()
    other = RequestSpec(flavor=Flavor(vcpus=1, memory_mb=1), instance_group=ServerGroup("anti-affinity", uuid="g2"))
    assert apart.scheduler.pipeline.rules.filters
    hosts = {apart.scheduler.place(other).selections[0].host for _ in range(3)}
    assert hosts == {"node-1", "node-2", "node-3"}


# --- options -----------------------------------------------------------------------------------------


def test_options_of_the_fleet_apply():
    document = {"hosts": [{"host": "a"}], "options": {"filter_scheduler": {"enabled_filters": ["RamFilter"]}}}
    scheduler = Scheduler(Fleet.load(document))
    assert [each.name for each in scheduler.pipeline.rules.filters] == ["RamFilter"]


def test_a_config_file_wins_over_the_fleet_and_options_win_over_the_file(tmp_path):
    document = {
        "hosts": [],
        "options": {"filter_scheduler": {"host_subset_size": 2}, "scheduler": {"max_attempts": 2}},
    }
    file = tmp_path / "roost.conf"
    file.write_text("[filter_scheduler]\nhost_subset_size = 3\nshuffle_best_same_weighed_hosts = yes\n")
    explicit = {"filter_scheduler": {"shuffle_best_same_weighed_hosts": False}}
    options = Scheduler(Fleet.load(document), options=explicit, config_files=[str(file)]).options
    assert (options.max_attempts, options.host_subset_size, options.shuffle_best_same_weighed_hosts) == (2, 3, False)


def test_a_single_filter_may_be_given_as_text():
    scheduler = with_options(fleet_of(1), enabled_filters="ComputeFilter")
    assert [each.name for each in scheduler.pipeline.rules.filters] == ["ComputeFilter"]


def test_an_empty_list_of_filters_lets_every_host_pass():
    scheduler = with_options(fleet_of(1, service={"up": False}), enabled_filters=[])
    assert scheduler.place(RequestSpec(flavor=SMALL)).is_placed


def test_without_weighers_hosts_come_in_their_order():
    scheduler = with_options(fleet_of(2), weight_classes=[])
    assert [scheduler.place(RequestSpec(flavor=SMALL)).selections[0].host for _ in range(2)] == ["node-1", "node-1"]


def test_an_unknown_filter_is_an_error_at_the_start():
    with pytest.raises(PluginNotFound, match=r"unknown filter ComputFilter \(did you mean ComputeFilter\?\)"):
        with_options(fleet_of(1), enabled_filters=["ComputFilter"])


def test_an_unknown_option_is_an_error_at_the_start():
    with pytest.raises(OptionError, match="did you mean host_subset_size"):
        with_options(fleet_of(1), host_subset_sise=2)


@pytest.mark.parametrize(("down_time", "is_placed"), [(60, False), (100, True)])
def test_service_down_time_decides_who_is_down(down_time, is_placed):
    fleet = fleet_of(1, service={"seconds_since_seen": 100})
    scheduler = Scheduler(fleet, options=COMPUTE_ONLY | {"DEFAULT": {"service_down_time": down_time}})
    assert scheduler.explain(RequestSpec(flavor=SMALL)).fits is is_placed


def test_multipliers_reach_their_weighers():
    others = {f"{name}_weight_multiplier": 0 for name in ("cpu", "disk", "io_ops")}
    scheduler = with_options(fleet_of(2), ram_weight_multiplier=-1.0, **others)
    hosts = [scheduler.place(RequestSpec(flavor=SMALL)).selections[0].host for _ in range(4)]
    assert hosts == ["node-1"] * 4


def test_a_plugin_may_lie_beside_the_config_file(tmp_path):
    (tmp_path / "beside_the_file.py").write_text(
        "from roost.filters import HostFilter\n"
        "class SecondOnly(HostFilter):\n"
        "    def host_passes(self, host, spec):\n"
        "        return host.host == 'node-2'\n"
    )
    file = tmp_path / "roost.conf"
    file.write_text(
        "[filter_scheduler]\n"
        "available_filters = roost.filters.all_filters\n"
        "available_filters = beside_the_file.SecondOnly\n"
        "enabled_filters = ComputeFilter, SecondOnly\n"
    )
    scheduler = Scheduler(fleet_of(3), config_files=[file])
    assert scheduler.place(RequestSpec(flavor=SMALL)).selections[0].host == "node-2"


class Unborn(HostFilter):
    """Cannot be made."""

    def __init__(self):
        raise RuntimeError("no licence server")


def test_a_plugin_that_cannot_be_made_is_named():
    with pytest.raises(PluginFailed, match="Unborn failed: RuntimeError: no licence server"):
        with_options(fleet_of(1), available_filters=[f"{__name__}.Unborn"], enabled_filters=["Unborn"])


# --- builds ------------------------------------------------------------------------------------------


PACKED = {"ram_weight_multiplier": -1.0, "cpu_weight_multiplier": 0.0, "disk_weight_multiplier": 0.0}


def io_ops(scheduler):
    return scheduler.table.num_io_ops.tolist()


def tracking_builds(fleet):
    options = {"filter_scheduler": {"enabled_filters": [], **PACKED}}
    return Scheduler(fleet, options=options, seed=1, tracks_builds=True)


def test_a_placed_instance_is_built_so_packing_goes_on_where_it_was():
    """IoOpsWeigher counts builds against a host: if they never ended, packing would turn into spreading."""
    scheduler = with_options(fleet_of(3), **PACKED)
    hosts = [scheduler.place(RequestSpec(flavor=SMALL)).selections[0].host for _ in range(4)]
    assert (hosts, io_ops(scheduler)) == (["node-1"] * 4, [0, 0, 0])


def test_instances_of_one_request_count_as_builds_until_all_are_placed_as_in_nova():
    scheduler = with_options(fleet_of(3), **PACKED)
    decision = scheduler.place(RequestSpec(flavor=SMALL, num_instances=3))
    assert [selection.host for selection in decision.selections] == ["node-1", "node-2", "node-3"]
    assert io_ops(scheduler) == [0, 0, 0]


def test_a_caller_that_tracks_builds_says_when_one_is_done():
    scheduler = tracking_builds(fleet_of(2))
    first, second = (scheduler.place(RequestSpec(flavor=SMALL)).selections[0] for _ in range(2))
    assert ([first.host, second.host], io_ops(scheduler)) == (["node-1", "node-2"], [1, 1])
    for _ in range(2):
        scheduler.mark_built(first)
        assert io_ops(scheduler) == [0, 1]
    assert scheduler.place(RequestSpec(flavor=SMALL)).selections[0].host == "node-1"


@pytest.mark.parametrize("is_built", [True, False])
def test_what_is_released_while_it_is_built_or_afterwards_leaves_no_build_behind(is_built):
    scheduler = tracking_builds(fleet_of(1))
    selection = scheduler.place(RequestSpec(flavor=SMALL)).selections[0]
    if is_built:
        scheduler.mark_built(selection)
    scheduler.release(selection)
    assert (io_ops(scheduler), free_ram(scheduler)) == ([0], [8192])
    with pytest.raises(UnknownName, match="holds nothing here"):
        scheduler.mark_built(selection)


def test_an_instance_placed_by_the_library_leaves_the_builds_that_a_host_reports():
    scheduler = with_options(fleet_of(1, num_io_ops=3))
    scheduler.release(scheduler.place(RequestSpec(flavor=SMALL)).selections[0])
    assert io_ops(scheduler) == [3]


def test_of_equal_placements_of_one_instance_each_is_built_and_released_on_its_own():
    scheduler = tracking_builds(fleet_of(1))
    spec = RequestSpec(flavor=SMALL, instance_uuid="6a0b7c1e-5ef2-4a3e-9d7b-0c9b8f7a1e01")
    first, second = (scheduler.place(spec).selections[0] for _ in range(2))
    scheduler.mark_built(first)
    scheduler.mark_built(second)
    assert io_ops(scheduler) == [0]
    scheduler.release(first)
    scheduler.release(second)
    assert (io_ops(scheduler), free_ram(scheduler)) == ([0], [8192])
