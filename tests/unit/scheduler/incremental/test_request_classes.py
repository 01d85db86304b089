# SPDX-License-Identifier: Apache-2.0
"""Which requests share what is kept, when it is made anew, and that the answers are those of a new pipeline."""

import math
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from roost.scheduler.incremental.request_classes import Rules, shared_part
from tests.engines import EAGER, FULL_SCAN
from tests.parity.twins import twin_of

from roost.errors import NoValidHost, RoostError
from roost.filters.affinity import DifferentHostFilter, SameHostFilter
from roost.filters.aggregate_isolation import AggregateMultiTenancyIsolation
from roost.filters.base import Filter, HostFilter
from roost.filters.compute import ComputeFilter
from roost.filters.core import CoreFilter
from roost.filters.disk import DiskFilter
from roost.filters.io_ops import IoOpsFilter
from roost.filters.isolated_hosts import IsolatedHostsFilter
from roost.filters.ram import RamFilter
from roost.filters.retry import RetryFilter
from roost.filters.server_group import ServerGroupAffinityFilter, ServerGroupAntiAffinityFilter
from roost.filters.type_affinity import AggregateTypeAffinityFilter, TypeAffinityFilter
from roost.hosts import Inventory
from roost.hosts.row_changes import ChangeLog
from roost.model import Aggregate, Image
from roost.scheduler import Pipeline
from roost.scheduler.choice import Choice
from roost.scheduler.incremental import ranking as ranking_module
from roost.testing import make_hosts, make_records, make_spec
from roost.weighers.base import HostWeigher, Weigher
from roost.weighers.best_fit import BestFitWeigher
from roost.weighers.hypervisor_version import HypervisorVersionWeigher
from roost.weighers.metrics import MetricsWeigher
from roost.weighers.num_instances import NumInstancesWeigher
from roost.weighers.ram import RAMWeigher
from roost.weighers.server_group import ServerGroupSoftAffinityWeigher, ServerGroupSoftAntiAffinityWeigher

GPU = "CUSTOM_GPU"
ROOMY = {"vcpus_total": 64, "total_usable_ram_mb": 65536, "total_usable_disk_gb": 1000}


def fleet(count=3, **columns):
    return make_hosts(**({"host": [f"h{row:03}" for row in range(count)]} | ROOMY | columns))


def report(row, **fields):
    """What a host of `fleet` reports."""
    (record,) = make_records(**{name: [value] for name, value in (ROOMY | fields | {"host": f"h{row:03}"}).items()})
    return record


def by(weigher, multiplier):
    return weigher(weigher.Options(**{weigher.multiplier_option: multiplier}))


def classes_of(table, filters=(), weighers=(), by_project=False):
    prefilters = PrefilterOptions(limit_tenants_to_placement_aggregate=by_project)
    return RequestCache(table, Rules(tuple(filters), tuple(weighers), prefilters))


def outcome(pipeline, table, spec, uuids, alternates):
    """All that a decision says but the time it took."""
    try:
        decision = pipeline.place(
            table, spec, list(uuids), randomness=random.Random(1), clock=lambda: 0, alternates=alternates
        )
    except NoValidHost as refused:
        return refused.decision.steps, refused.decision.summary
    except RoostError as error:
        return type(error), str(error)
    best = [(each.host, each.weight, dict(each.scores)) for each in decision.best]
    chosen = [(each.host, [other.host for other in each.alternates]) for each in decision.selections]
    return decision.steps, best, chosen


def place(pipeline, table, spec, uuids=("i1",), alternates=3):
    """Where it goes, checked against a new pipeline that keeps nothing, on a copy of the table."""
    expected = outcome(pipeline.fresh(FULL_SCAN), twin_of(table), spec, uuids, alternates)
    found = outcome(pipeline, table, spec, uuids, alternates)
    assert found == expected
    return [host for host, _ in found[2]] if len(found) == 3 else []


def place_and_give_back(pipeline, table, spec, uuid):
    """The same, and afterwards the hosts are as they were."""
    chosen = place(pipeline, table, spec, [uuid])
    for row in table.rows_of_instance(uuid):
        table.release(row, spec.for_instance(uuid))
    return chosen


# --- who is of one class -----------------------------------------------------------------------------

CLASS, FAMILY, NEITHER = "class", "family", "neither"
BASE = {
    "memory_mb": 1024,
    "name": "m1",
    "id": 1,
    "project_id": "p1",
    "user_id": "me",
    "image": {"os_distro": "debian"},
}


def shared(first, second, *filters, **keywords):
    classes = classes_of(fleet(), filters, **keywords)
    one, other = classes.find(first), classes.find(second)
    if one is other:
        return CLASS
    return FAMILY if one.family is other.family else NEITHER


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        pytest.param({}, CLASS, id="equal"),
        pytest.param({"instance_uuid": "i2"}, CLASS, id="uuid"),
        pytest.param({"num_instances": 5}, CLASS, id="how many"),
        pytest.param({"name": "m2"}, CLASS, id="name of the flavor"),
        pytest.param({"id": 2}, CLASS, id="id of the flavor"),
        pytest.param({"project_id": "p2"}, CLASS, id="project"),
        pytest.param({"user_id": "you"}, CLASS, id="user"),
        pytest.param({"memory_mb": 2048}, FAMILY, id="memory"),
        pytest.param({"vcpus": 2}, FAMILY, id="CPUs"),
        pytest.param({"root_gb": 1}, FAMILY, id="root disk"),
        pytest.param({"ephemeral_gb": 1}, FAMILY, id="ephemeral disk"),
        pytest.param({"swap": 1}, FAMILY, id="swap"),
        pytest.param({"extra_specs": {"ssd": "true"}}, NEITHER, id="extra specs"),
        pytest.param({"image": {"os_distro": "windows"}}, NEITHER, id="image properties"),
        pytest.param({"image": None}, NEITHER, id="no image"),
        pytest.param({"availability_zone": "az1"}, NEITHER, id="zone"),
        pytest.param({"scheduler_hints": {"same_host": ["u1"]}}, NEITHER, id="hints"),
        pytest.param({"instance_group": {"policy": "anti-affinity"}}, NEITHER, id="group"),
        pytest.param({"retry": {"hosts": [("h000", "h000")]}}, NEITHER, id="retry"),
        pytest.param({"ignore_hosts": ["h000"]}, NEITHER, id="ignored hosts"),
        pytest.param({"force_hosts": ["h000"]}, NEITHER, id="forced hosts"),
        pytest.param({"force_nodes": ["h000"]}, NEITHER, id="forced nodes"),
        pytest.param({"requested_destination": {"host": "h000"}}, NEITHER, id="destination"),
    ],
)
def test_requests_share_a_class_unless_they_differ_in_what_matters(fields, what):
    assert shared(make_spec(**BASE), make_spec(**(BASE | fields))) == what


def test_other_bytes_of_the_same_image_make_no_difference():
    image = make_spec(**BASE).image
    first, second = replace(image, id="image2", name="other", size=5), image
    assert shared(make_spec(**(BASE | {"image": first})), make_spec(**(BASE | {"image": second}))) == CLASS


def test_booted_from_a_volume_an_image_asks_for_less():
    image = Image(id="image1", disk_format="raw")
    from_image, from_volume = (make_spec(root_gb=0, image=image, is_bfv=each) for each in (False, True))
    assert shared(from_image, from_volume) == NEITHER


def test_the_format_of_the_image_tells_requests_apart():
    raw, qcow = (make_spec(image=Image(id="image1", disk_format=name)) for name in ("raw", "qcow2"))
    assert shared(raw, qcow) == NEITHER


def test_a_root_disk_that_is_a_volume_makes_a_request_smaller():
    assert shared(make_spec(root_gb=5), make_spec(root_gb=5, is_bfv=True)) == FAMILY


@pytest.mark.parametrize(
    ("rule", "fields"),
    [
        pytest.param(AggregateMultiTenancyIsolation(), {"project_id": "p2"}, id="project"),
        pytest.param(AggregateTypeAffinityFilter(), {"name": "m2"}, id="name of the flavor"),
        pytest.param(TypeAffinityFilter(), {"id": 2}, id="id of the flavor"),
        pytest.param(TypeAffinityFilter(), {"id": "1"}, id="id of the flavor as text"),
        pytest.param(RamFilter(), {"memory_mb": 2048}, id="memory"),
        pytest.param(CoreFilter(), {"vcpus": 2}, id="CPUs"),
        pytest.param(DiskFilter(), {"root_gb": 2}, id="disk"),
    ],
)
def test_what_an_enabled_filter_looks_at_tells_requests_apart(rule, fields):
    assert shared(make_spec(**BASE), make_spec(**(BASE | fields)), rule) == NEITHER
    assert shared(make_spec(**BASE), make_spec(**BASE), rule) == CLASS


def test_isolated_images_are_told_apart_from_others_but_not_from_each_other():
    rule = IsolatedHostsFilter(IsolatedHostsFilter.Options(isolated_hosts=("h000",), isolated_images=("a", "b")))
    a, b, c, d = (make_spec(image=Image(id=name)) for name in "abcd")
    assert [shared(a, b, rule), shared(c, d, rule), shared(a, c, rule)] == [CLASS, CLASS, NEITHER]


def test_where_projects_have_aggregates_of_their_own_they_are_told_apart():
    first, second = make_spec(project_id="p1"), make_spec(project_id="p2")
    assert shared(first, second, by_project=True) == NEITHER


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        pytest.param({"members": ["u1", "u2"]}, CLASS, id="members, which are tracked"),
        pytest.param({"hosts": ["h001"]}, CLASS, id="hosts, which only affinity goes by"),
        pytest.param({"uuid": "other"}, NEITHER, id="uuid"),
        pytest.param({"name": "other"}, NEITHER, id="name, which a reason tells"),
        pytest.param({"policy": "soft-anti-affinity"}, NEITHER, id="policy"),
        pytest.param({"rules": {"max_server_per_host": 2}}, NEITHER, id="rules"),
    ],
)
def test_requests_of_a_group_share_a_class(fields, what):
    group = {"policy": "anti-affinity", "uuid": "g", "name": "web", "members": ["u1"]}
    assert shared(make_spec(instance_group=group), make_spec(instance_group=group | fields)) == what


@pytest.mark.parametrize("policy", ["affinity", "legacy"])
def test_where_affinity_goes_by_the_hosts_of_the_group_they_tell_requests_apart(policy):
    here, there = (make_spec(instance_group={"policy": policy, "hosts": [host]}) for host in ("h000", "h001"))
    assert shared(here, there) == NEITHER


# --- other people's rules ----------------------------------------------------------------------------


class NotBusy(Filter):
    """A rule on columns that says what it reads."""

    reads = frozenset({"num_io_ops"})

    def mask(self, hosts, spec):
        return hosts.num_io_ops < 5

    def reason(self, host, spec):
        return "busy"


class Unnamed(NotBusy):
    """A rule on columns that does not say what it reads."""

    reads = frozenset()


class NotBusyHost(HostFilter):
    """A rule in nova's shape."""

    reads = frozenset({"num_io_ops"})

    def host_passes(self, host_state, spec_obj):
        return host_state.num_io_ops < 5


class Idle(Weigher):
    """A weigher on columns that says what it reads; higher means busier."""

    reads = frozenset({"num_io_ops"})

    def weigh(self, hosts, spec):
        return hosts.num_io_ops

    def multiplier(self):
        return -1.0


class UnnamedIdle(Idle):
    """A weigher on columns that does not say what it reads."""

    reads = frozenset()


class IdleHost(HostWeigher):
    """A weigher in nova's shape."""

    reads = frozenset({"num_io_ops"})

    def _weigh_object(self, host_state, weight_properties):
        return -host_state.num_io_ops


class BuiltOnOurs(RAMWeigher):
    """Free memory as a share; higher means more room."""

    def weigh(self, hosts, spec):
        return hosts.free_ram_mb / hosts.total_usable_ram_mb


@pytest.mark.parametrize(
    ("look", "fields"),
    [
        pytest.param(lambda spec: spec.num_instances, {"num_instances": 2}, id="how many"),
        pytest.param(lambda spec: spec.is_bfv, {"is_bfv": True}, id="volume"),
        pytest.param(lambda spec: repr(spec.flavor.id), {"id": True}, id="an id that is equal and not the same"),
        pytest.param(lambda spec: spec.retry.num_attempts, {"retry": {"num_attempts": 2}}, id="attempts"),
        pytest.param(lambda spec: spec.instance_uuid, {"instance_uuid": "i2"}, id="uuid"),
    ],
)
def test_somebody_s_own_filter_gets_the_request_as_it_is(look, fields):
    first = make_spec(id=1, retry={"num_attempts": 1}, instance_uuid="i1")
    second = make_spec(**({"id": 1, "retry": {"num_attempts": 1}, "instance_uuid": "i1"} | fields))

    class Choosy(NotBusy):
        """Lets the second request pass."""

        def mask(self, hosts, spec):
            return np.full(len(hosts), look(spec) == look(second))

    table, pipeline = fleet(), Pipeline([Choosy()], [], engine=EAGER)
    assert place(pipeline, table, first, [first.instance_uuid]) == []
    assert place(pipeline, table, second, [second.instance_uuid]) == ["h000"]


@pytest.mark.parametrize(
    ("filters", "weighers", "is_kept"),
    [
        pytest.param([], [], True, id="nothing"),
        pytest.param([ComputeFilter()], [RAMWeigher()], True, id="ours"),
        pytest.param([NotBusy()], [], False, id="somebody's own filter, whatever it says that it reads"),
        pytest.param([], [Idle()], False, id="somebody's own weigher, whatever it says that it reads"),
        pytest.param([], [BuiltOnOurs()], False, id="somebody's own weigher that builds on ours"),
        pytest.param([Unnamed()], [], False, id="a filter that does not say"),
        pytest.param([], [UnnamedIdle()], False, id="a weigher that does not say"),
        pytest.param([NotBusyHost()], [], False, id="a filter in nova's shape"),
        pytest.param([], [IdleHost()], False, id="a weigher in nova's shape"),
        pytest.param([], [MetricsWeigher()], True, id="no metrics are set"),
        pytest.param(
            [], [MetricsWeigher(MetricsWeigher.Options(weight_setting=("a=1",)))], False, id="a metric may be missing"
        ),
        pytest.param(
            [],
            [MetricsWeigher(MetricsWeigher.Options(weight_setting=("a=1",), required=False))],
            True,
            id="a metric may be missing and that is no error",
        ),
    ],
)
def test_answers_are_kept_where_they_follow_from_named_columns(filters, weighers, is_kept):
    assert Pipeline(filters, weighers).engine.is_enabled is is_kept


def test_answers_are_not_kept_where_chance_puts_equals_in_order():
    assert not Pipeline([], [], Choice(shuffles_best=True)).engine.is_enabled
    assert Pipeline([], [], Choice(host_subset_size=3)).engine.is_enabled


@pytest.mark.parametrize(
    "rules", [([NotBusy()], [Idle()]), ([Unnamed()], [UnnamedIdle()]), ([NotBusyHost()], [IdleHost()])]
)
def test_somebody_s_own_rules_see_every_change(rules):
    table, pipeline = fleet(num_io_ops=[0, 1, 2]), Pipeline(*rules, engine=EAGER)
    assert place(pipeline, table, make_spec(), ["i1"]) == ["h000"]
    table.update(0, report(0, num_io_ops=9))
    assert place(pipeline, table, make_spec(), ["i2"]) == ["h001"]
    table.update(1, report(1, num_io_ops=4))
    assert place(pipeline, table, make_spec(), ["i3"]) == ["h002"]


def test_the_error_of_somebody_s_own_weigher_names_it():
    class Failing(Idle):
        """Fails on busy hosts."""

        def weigh(self, hosts, spec):
            if hosts.num_io_ops.max() > 5:
                raise ZeroDivisionError("too busy")
            return hosts.num_io_ops

    table, pipeline = fleet(num_io_ops=[0, 1, 2]), Pipeline([], [Failing()], engine=EAGER)
    place(pipeline, table, make_spec(), ["i1"])
    table.update(2, report(2, num_io_ops=9))
    place(pipeline, table, make_spec(), ["i2"])
    table.update(2, report(2, num_io_ops=0))
    assert place(pipeline, table, make_spec(), ["i3"]) != []


def test_too_few_weights_of_somebody_s_own_weigher_are_an_error():
    class OneForAll(Idle):
        """One number for all."""

        def weigh(self, hosts, spec):
            return np.ones(1)

    table, pipeline = fleet(), Pipeline([], [OneForAll()], engine=EAGER)
    assert place(pipeline, table, make_spec()) == []


def test_a_multiplier_may_be_a_whole_number():
    class Twice(Idle):
        """Counts double."""

        def multiplier(self):
            return -2

    table, pipeline = fleet(num_io_ops=[3, 0, 2]), Pipeline([], [Twice()], engine=EAGER)
    assert place(pipeline, table, make_spec(), ["i1", "i2", "i3"]) == ["h001", "h001", "h001"]


def test_multipliers_that_go_by_a_column_follow_it():
    class Fickle(Idle):
        """Prefers busy hosts while they run little."""

        reads = frozenset({"num_io_ops", "num_instances"})

        def multipliers(self, hosts):
            return np.where(hosts.num_instances > 2, -1.0, 1.0)

    table, pipeline = fleet(num_io_ops=[6, 5, 4]), Pipeline([], [Fickle()], engine=EAGER)
    assert place(pipeline, table, make_spec(), ["i1"]) == ["h000"]
    table.update(0, report(0, num_io_ops=7, num_instances=5))
    assert place(pipeline, table, make_spec(), ["i2"]) == ["h001"]


def test_somebody_s_own_weigher_may_build_on_ours():
    table = fleet(total_usable_ram_mb=[100000, 20000, 50000], free_ram_mb=[50000, 19000, 40000])
    pipeline = Pipeline([], [BuiltOnOurs()], engine=EAGER)
    for number in range(6):
        place(pipeline, table, make_spec(memory_mb=1000), [f"i{number}"])


@pytest.mark.parametrize(
    ("problem", "ratio"),
    [
        pytest.param(math.nan, 1.0, id="no number"),
        pytest.param(1e308, 10.0, id="more than there are numbers for"),
        pytest.param(1e308, -10.0, id="less than there are numbers for"),
    ],
)
def test_a_weight_that_becomes_no_number_is_what_it_is_for_a_new_pipeline(problem, ratio):
    def metrics(value):
        return ({"name": "heat", "value": value},)

    options = MetricsWeigher.Options(weight_setting=(f"heat={ratio}",), required=False)
    pipeline = Pipeline([], [MetricsWeigher(options)], engine=EAGER)
    plain = pipeline.fresh(FULL_SCAN)
    table = fleet(8, metrics=[metrics(float(row * 3 % 8)) for row in range(8)])
    for number, heat in enumerate([3.0, 3.0, 3.0, problem, problem, 0.0, 2.0, problem]):
        table.update(2, report(2, metrics=metrics(heat)))
        twin = twin_of(table)
        with np.errstate(all="ignore"):
            _, best, chosen = outcome(pipeline, table, make_spec(), [f"i{number}"], 0)
            _, plain_best, plain_chosen = outcome(plain, twin, make_spec(), [f"i{number}"], 0)
        assert chosen == plain_chosen
        assert repr(best) == repr(plain_best)


@pytest.mark.filterwarnings("ignore:overflow")
def test_after_a_weight_that_is_no_number_the_answers_are_those_of_now():
    """The one host whose weight is none is down, so that all others have one."""

    def metrics(value):
        return ({"name": "heat", "value": value},)

    weigher = MetricsWeigher(MetricsWeigher.Options(weight_setting=("heat=10",), required=False))
    table = fleet(3, metrics=[metrics(1.0), metrics(2.0), metrics(1e308)], service=[{}, {}, {"up": False}])
    pipeline = Pipeline([ComputeFilter()], [weigher], engine=EAGER)
    assert place(pipeline, table, make_spec(), ["i1"]) == ["h001"]
    table.update(0, report(0, metrics=metrics(5.0)))
    assert place(pipeline, table, make_spec(), ["i2"]) == ["h000"]


def test_there_may_be_more_questions_than_a_code_has_numbers():
    extra_specs = {f"resources:CUSTOM_{number}": "1" for number in range(300)}
    inventories = {f"CUSTOM_{number}": Inventory(8) for number in range(300)}
    table, pipeline = fleet(2, resources=[inventories, {}]), Pipeline([], [RAMWeigher()], engine=EAGER)
    assert place(pipeline, table, make_spec(extra_specs=extra_specs)) == ["h000"]


# --- how many are kept -------------------------------------------------------------------------------


def zoned(number, **fields):
    return make_spec(availability_zone=f"az{number}", **fields)


def test_the_families_that_were_not_used_for_longest_are_forgotten(monkeypatch):
    monkeypatch.setattr(cache_module, "MOST_FAMILIES", 4)
    classes = classes_of(fleet())
    first, *others = [classes.find(zoned(number)) for number in range(4)]
    assert classes.find(zoned(0)) is first  # used again
    classes.find(zoned(4))
    assert [classes.find(zoned(number)) is each for number, each in ((0, first), (2, others[1]), (3, others[2]))] == [
        True,
        True,
        True,
    ]
    assert classes.find(zoned(1)) is not others[0]


def test_of_a_large_fleet_less_is_kept_and_the_latest_always(monkeypatch):
    """Ten hosts: a byte per host for each class, and two for each family; eight of those are always allowed."""
    monkeypatch.setattr(cache_module, "MOST_BYTES", 90)
    classes = classes_of(fleet(10))
    first, second, third, fourth = (classes.find(zoned(number)) for number in range(4))
    assert [classes.find(zoned(number)) is each for number, each in ((3, fourth), (2, third), (1, second))] == [
        True
    ] * 3
    assert classes.find(zoned(0)) is not first


def test_one_family_is_kept_however_many_sizes_it_has(monkeypatch):
    monkeypatch.setattr(cache_module, "MOST_BYTES", 1)
    classes = classes_of(fleet(10))
    found = [classes.find(make_spec(memory_mb=size)) for size in range(1, 20)]
    assert [classes.find(make_spec(memory_mb=size)) for size in range(1, 20)] == found


def test_the_sizes_that_were_not_asked_for_longest_are_forgotten(monkeypatch):
    monkeypatch.setattr(class_module, "MOST_SIZES", 3)
    classes = classes_of(fleet())
    small, *_ = found = [classes.find(make_spec(memory_mb=size)) for size in (1, 2, 3)]
    assert classes.find(make_spec(memory_mb=1)) is small
    classes.find(make_spec(memory_mb=4))
    assert len(small.family.classes) == 3
    assert classes.find(make_spec(memory_mb=3)) is found[2]
    assert classes.find(make_spec(memory_mb=2)) is not found[1]


def test_however_many_sizes_there_are_each_gets_its_answer(monkeypatch):
    monkeypatch.setattr(class_module, "MOST_SIZES", 2)
    table, pipeline = fleet(), Pipeline([ComputeFilter()], [RAMWeigher()], engine=EAGER)
    for number in range(12):
        place(pipeline, table, make_spec(memory_mb=1000 + number % 4), [f"i{number}"])


@pytest.mark.parametrize("most", [1, 2, 3, 4])
def test_however_many_hosts_are_nearly_full_each_size_gets_its_answer(most, monkeypatch):
    """Every host has room for one, and the fullest are the best: who is filled up must be seen to be."""
    monkeypatch.setattr(class_module, "_MOST_NOTED", most)
    table, pipeline = (
        fleet(12, total_usable_ram_mb=4096),
        Pipeline([ComputeFilter()], [by(RAMWeigher, -1.0)], engine=EAGER),
    )
    for number in range(4):
        size = 2100 + number % 2
        assert len(place(pipeline, table, make_spec(memory_mb=size), [f"i{number}-{at}" for at in range(3)])) == 3


def test_another_table_is_another_matter():
    pipeline, here, there = Pipeline([], [RAMWeigher()], engine=EAGER), fleet(2), fleet(2, free_ram_mb=[1000, 9000])
    assert place(pipeline, here, make_spec()) == ["h000"]
    assert place(pipeline, there, make_spec()) == ["h001"]
    assert place(pipeline, here, make_spec(), ["i2"]) == ["h001"]


# --- refusals ----------------------------------------------------------------------------------------


def test_a_refusal_is_the_same_until_something_changes():
    table = fleet(free_ram_mb=[100, 200, 300])
    classes = classes_of(table)
    refusal = classes.find(make_spec(memory_mb=5000)).refusal()
    assert classes.find(make_spec(memory_mb=5000)).refusal() is refusal
    assert refusal[-1].detail == "needs 5000 MiB, most free 300"


def test_a_refusal_tells_what_is_lacking_now():
    table = fleet(free_ram_mb=[100, 200, 300])
    classes = classes_of(table)
    classes.find(make_spec(memory_mb=5000)).refusal()
    table.update(1, report(1, free_ram_mb=4000))
    assert classes.find(make_spec(memory_mb=5000)).refusal()[-1].detail == "needs 5000 MiB, most free 4000"


def test_a_refusal_ends_when_there_is_room():
    table, pipeline = fleet(free_ram_mb=[100, 200, 300]), Pipeline([], [RAMWeigher()], engine=EAGER)
    assert place(pipeline, table, make_spec(memory_mb=5000)) == []
    table.update(1, report(1, free_ram_mb=8000))
    assert place(pipeline, table, make_spec(memory_mb=5000)) == ["h001"]
    assert place(pipeline, table, make_spec(memory_mb=5000), ["i2"]) == []


# --- built anew --------------------------------------------------------------------------------------


def is_built_anew(classes, spec, change):
    """Whether the survivors of all sizes are made anew after a change."""
    before = classes.find(spec).family.survivors
    change()
    return classes.find(spec).family.survivors is not before


def test_after_a_small_change_what_is_kept_is_patched():
    table = fleet()
    assert not is_built_anew(classes_of(table), make_spec(), lambda: table.update(1, report(1, num_io_ops=7)))


def test_after_a_change_of_aggregates_all_is_built_anew():
    table = fleet()
    change = lambda: table.update(1, report(1, aggregates=[{"ram_weight_multiplier": "-1"}]))  # noqa: E731
    assert is_built_anew(classes_of(table), make_spec(), change)


def test_other_aggregates_set_other_multipliers():
    table, pipeline = fleet(free_ram_mb=[9000, 8000, 7000]), Pipeline([], [RAMWeigher()], engine=EAGER)
    assert place(pipeline, table, make_spec(), ["i1"]) == ["h000"]
    table.update(0, report(0, free_ram_mb=8488, aggregates=[{"ram_weight_multiplier": "-1"}]))
    assert place(pipeline, table, make_spec(), ["i2"]) == ["h001"]


def test_an_aggregate_that_no_host_is_in_counts_too():
    table = fleet()

    def change():
        table.known_aggregates = (Aggregate("new", {"availability_zone": "az9"}, id=9),)

    assert is_built_anew(classes_of(table), make_spec(), change)


def test_where_the_log_forgot_some_changes_all_is_built_anew():
    table = fleet(10)
    table.changes = ChangeLog(keep=5)

    def change():
        for row in range(6):
            table.update(row, report(row, num_io_ops=row + 1))

    assert is_built_anew(classes_of(table), make_spec(), change)


def test_where_the_log_forgot_some_changes_the_answers_are_those_of_now():
    table, pipeline = fleet(10), Pipeline([], [RAMWeigher()], engine=EAGER)
    table.changes = ChangeLog(keep=5)
    place(pipeline, table, make_spec(), ["i1"])
    for row in range(9):
        table.update(row, report(row, free_ram_mb=1000 + row))
    assert place(pipeline, table, make_spec(), ["i2"]) == ["h009"]


def test_where_most_hosts_changed_all_is_built_anew():
    table = fleet(100)

    def change():
        for row in range(90):
            table.update(row, report(row, num_io_ops=1 + row))

    assert is_built_anew(classes_of(table), make_spec(), change)


def test_a_new_resource_class_is_seen():
    table, pipeline = fleet(), Pipeline([], [RAMWeigher()], engine=EAGER)
    spec = make_spec(extra_specs={f"resources:{GPU}": "1"})
    assert place(pipeline, table, spec) == []
    table.update(1, report(1, resources={GPU: Inventory(1)}))
    assert place(pipeline, table, spec) == ["h001"]
    assert place(pipeline, table, spec, ["i2"]) == []


def test_portions_other_than_one_are_seen():
    table, pipeline = fleet(2), Pipeline([], [RAMWeigher()], engine=EAGER)
    for row, free_ram_mb in enumerate([9000, 1000]):
        table.update(row, report(row, resources={GPU: Inventory(8)}, free_ram_mb=free_ram_mb))
    specs = [make_spec(extra_specs={f"resources:{GPU}": amount}) for amount in ("1", "2")]
    assert [place(pipeline, table, spec, [f"i{at}"]) for at, spec in enumerate(specs)] == [["h000"], ["h000"]]
    table.update(0, report(0, resources={GPU: Inventory(8, step_size=2)}, free_ram_mb=9000))
    assert [place(pipeline, table, spec, [f"j{at}"]) for at, spec in enumerate(specs)] == [["h001"], ["h000"]]


def test_where_memory_comes_in_portions_room_for_much_is_not_room_for_less():
    """h000 has room for the larger size all the time, and at last for the smaller one, too."""

    def portions(least):
        return {"MEMORY_MB": Inventory(65536, min_unit=least)}

    table = fleet(2, resources=[portions(2048), portions(1)], free_ram_mb=[9000, 5000])
    pipeline = Pipeline([], [RAMWeigher()], engine=EAGER)
    much, less = make_spec(memory_mb=4096), make_spec(memory_mb=1024)
    for number in range(3):
        assert place_and_give_back(pipeline, table, much, f"i{number}") == ["h000"]
        assert place_and_give_back(pipeline, table, less, f"j{number}") == ["h001"]
        table.update(0, report(0, resources=portions(2048), free_ram_mb=9000 + number))
    table.update(0, report(0, resources=portions(1), free_ram_mb=9000))
    assert place_and_give_back(pipeline, table, less, "k") == ["h000"]


def test_room_for_the_sizes_of_before_is_not_room_for_a_larger_one():
    table, pipeline = fleet(2, free_ram_mb=[1000, 900]), Pipeline([], [RAMWeigher()], engine=EAGER)
    small, large = make_spec(memory_mb=100), make_spec(memory_mb=5000)
    for number in range(3):
        assert place_and_give_back(pipeline, table, small, f"i{number}") == ["h000"]
    assert place(pipeline, table, large) == []
    table.update(0, report(0, free_ram_mb=9000))
    assert place(pipeline, table, large) == ["h000"]


def test_where_the_log_forgets_at_once_several_instances_get_the_answers_of_a_new_pipeline():
    table, pipeline = (
        fleet(4, free_ram_mb=[5000, 4000, 3000, 9000]),
        Pipeline([ComputeFilter()], [RAMWeigher()], engine=EAGER),
    )
    table.changes = ChangeLog(keep=0)
    for number in range(3):
        place(pipeline, table, make_spec(memory_mb=1000), [f"i{number}-{at}" for at in range(4)])


def test_a_column_that_all_hosts_shared_is_followed_once_they_do_not():
    table, pipeline = fleet(), Pipeline([], [by(HypervisorVersionWeigher, 1.0)], engine=EAGER)
    assert place(pipeline, table, make_spec(), ["i1"]) == ["h000"]
    assert place(pipeline, table, make_spec(), ["i2"]) == ["h000"]
    table.update(2, report(2, hypervisor_version=8002000))
    assert place(pipeline, table, make_spec(), ["i3"]) == ["h002"]
    table.update(1, report(1, hypervisor_version=9002000))
    assert place(pipeline, table, make_spec(), ["i4"]) == ["h001"]


def test_after_somebody_copied_the_table_changes_are_followed():
    table, pipeline = fleet(), Pipeline([], [by(HypervisorVersionWeigher, 1.0)], engine=EAGER)
    table.update(2, report(2, hypervisor_version=8002000))
    assert place(pipeline, table, make_spec(), ["i1"]) == ["h002"]
    copied = table.copy()
    table.update(1, report(1, hypervisor_version=9002000))
    assert place(pipeline, table, make_spec(), ["i2"]) == ["h001"]
    assert place(pipeline, copied, make_spec(), ["i3"]) == ["h002"]


def test_a_host_that_fills_up_and_empties_is_followed_by_every_size():
    table, pipeline = fleet(3, free_ram_mb=[6000, 5000, 4000]), Pipeline([], [RAMWeigher()], engine=EAGER)
    small, large = make_spec(memory_mb=500), make_spec(memory_mb=4500)
    assert place(pipeline, table, small, ["i1"]) == ["h000"]
    assert place(pipeline, table, large, ["i2"]) == ["h000"]
    assert place(pipeline, table, large, ["i3"]) == ["h001"]
    assert place(pipeline, table, large, ["i4"]) == []
    assert place(pipeline, table, small, ["i5"]) == ["h002"]
    table.release(0, large.for_instance("i2"))
    assert place(pipeline, table, large, ["i6"]) == ["h000"]


@pytest.mark.parametrize("few", [0, 100])
@pytest.mark.parametrize("resources", [{}, {GPU: Inventory(4, min_unit=2)}])
def test_hosts_that_changed_together_are_room_changes_unless_they_have_room_for_all(monkeypatch, few, resources):
    monkeypatch.setattr(class_module, "FEW", few)
    table = fleet(4, resources=resources)
    classes = classes_of(table)
    extra_specs = {f"resources:{GPU}": "2"} if resources else {}
    small, large = (make_spec(memory_mb=each, extra_specs=extra_specs) for each in (1000, 40000))
    family = classes.find(small).family
    for row in range(4):
        table.consume(row, small)
    table.consume(2, large)
    classes.find(large)
    for row in range(4):
        table.release(row, small)
    table.consume(3, large)
    family.room_changes.clear()
    classes.find(small)
    assert family.room_changes == [0, 1, 2, 3]  # what they had room for before, nobody knows
    for row in range(4):
        table.consume(row, small)
    family.room_changes.clear()
    classes.find(small)
    assert family.room_changes == ([0, 1, 2, 3] if resources else [2, 3])


# --- a ranking of its own ----------------------------------------------------------------------------


@pytest.fixture
def holds_few(monkeypatch):
    monkeypatch.setattr(ranking_module, "FEWEST_TOP_ROWS", 2)
    monkeypatch.setattr(ranking_module, "FEWEST_EXTREMES", 1)


NEARLY_FULL = [600 + 10 * row for row in range(20)] + [20000, 30000, 20000, 40000]


@pytest.mark.usefixtures("holds_few")
def test_where_the_best_of_all_sizes_have_no_room_a_class_gets_a_ranking_of_its_own():
    classes = classes_of(fleet(24, free_ram_mb=NEARLY_FULL), (), [by(RAMWeigher, -1.0)])
    small, large = classes.find(make_spec(memory_mb=100)), classes.find(make_spec(memory_mb=4000))
    for _ in range(3):
        assert [row for _, row in small.best(2)] == [0, 1]
        assert [row for _, row in large.best(2)] == [20, 22]
    assert small.ranking is small.family.ranking
    assert large.ranking is not large.family.ranking


@pytest.mark.usefixtures("holds_few")
@pytest.mark.parametrize("instances", [1, 3])
def test_packing_hosts_that_are_nearly_full_gives_the_answers_of_a_new_pipeline(instances):
    table = fleet(24, free_ram_mb=NEARLY_FULL)
    pipeline = Pipeline([ComputeFilter()], [by(RAMWeigher, -1.0), by(NumInstancesWeigher, 0.3)], engine=EAGER)
    for number in range(10):
        for size in (100, 4000, 9000):
            place(pipeline, table, make_spec(memory_mb=size), [f"i{number}-{size}-{at}" for at in range(instances)])
        row = number * 7 % 24
        table.update(row, report(row, free_ram_mb=500 + 2500 * (number % 3)))


def test_several_equal_hosts_that_are_not_held_are_taken_one_after_the_other():
    """A first request: the leaders of all sizes are the full hosts, and each of the others has room for one."""
    table = fleet(302, free_ram_mb=[500 + row for row in range(299)] + [20000] * 3)
    pipeline = Pipeline([], [by(RAMWeigher, -1.0)], engine=EAGER)
    assert place(pipeline, table, make_spec(memory_mb=11000), ["a", "b", "c"]) == ["h299", "h300", "h301"]


def test_where_the_size_matters_to_a_weigher_every_class_has_a_ranking_of_its_own():
    classes = classes_of(fleet(), (), [by(BestFitWeigher, 1.0)])
    small, large = classes.find(make_spec(memory_mb=100)), classes.find(make_spec(memory_mb=4000))
    assert len({id(each) for each in (small.ranking, large.ranking, small.family.ranking)}) == 3


@pytest.mark.usefixtures("holds_few")
def test_where_the_size_matters_to_a_weigher_the_answers_are_those_of_a_new_pipeline():
    table = fleet(12, vcpus_total=[8 + 4 * (row % 5) for row in range(12)])
    pipeline = Pipeline([ComputeFilter()], [by(BestFitWeigher, 1.0), by(RAMWeigher, 0.1)], engine=EAGER)
    for number in range(8):
        for size in (1, 5):
            place(pipeline, table, make_spec(vcpus=size, memory_mb=1024 * size), [f"i{number}-{size}"])
        table.update(number, report(number, vcpus_used=number, service={"up": number % 3 > 0}))


# --- groups ------------------------------------------------------------------------------------------


def of_group(policy, *members, **fields):
    return make_spec(instance_group={"policy": policy, "uuid": "g", "members": members, **fields})


def test_members_that_come_and_go_are_followed_by_anti_affinity():
    table = fleet(instances=[["u1"], ["u2"], ["u3"]], free_ram_mb=[9000, 5000, 1000])
    pipeline = Pipeline([ServerGroupAntiAffinityFilter()], [RAMWeigher()], engine=EAGER)
    chosen = [
        place_and_give_back(pipeline, table, of_group("anti-affinity", *members), f"i{at}")
        for at, members in enumerate([(), ("u1",), ("u1", "u2"), ("u2",), ("u1", "u2", "u3"), ("u3",)])
    ]
    assert chosen == [["h000"], ["h001"], ["h002"], ["h000"], [], ["h000"]]


@pytest.mark.parametrize("policy", ["soft-affinity", "soft-anti-affinity"])
@pytest.mark.parametrize("others", [[], [BestFitWeigher]], ids=["", "with a weigher that looks at the size"])
def test_members_that_come_and_go_are_followed_by_the_weighers(policy, others):
    table = fleet(4, instances=[["u1"], ["u2"], ["u3", "u4"], []])
    weighers = [ServerGroupSoftAffinityWeigher(), ServerGroupSoftAntiAffinityWeigher()]
    pipeline = Pipeline([], [*weighers, *(by(each, 0.001) for each in others)], engine=EAGER)
    everybody = [(), ("u1",), ("u1",), ("u1", "u2"), ("u2", "u3"), ("u3", "u4"), (), ("u3",), ("u4", "u1")]
    for at, members in enumerate(everybody):
        place_and_give_back(pipeline, table, of_group(policy, *members), f"i{at}")
        table.changes.note(at % 4, frozenset({"num_io_ops"}))


def test_a_new_member_counts_although_no_host_changed():
    """With a ranking per size, on a host that has room for every size before and after."""
    table = fleet(3, instances=[[], [], ["u1"]])
    pipeline = Pipeline([], [ServerGroupSoftAffinityWeigher(), by(BestFitWeigher, 0.001)], engine=EAGER)
    assert place_and_give_back(pipeline, table, of_group("soft-affinity"), "i1") == ["h000"]
    table.changes.note(2, frozenset({"num_io_ops"}))
    assert place_and_give_back(pipeline, table, of_group("soft-affinity"), "i2") == ["h000"]
    assert place_and_give_back(pipeline, table, of_group("soft-affinity", "u1"), "i3") == ["h002"]


def test_instances_of_a_request_keep_apart_as_its_group_grows():
    table, pipeline = fleet(4), Pipeline([ServerGroupAntiAffinityFilter()], [RAMWeigher()], engine=EAGER)
    spec = of_group("anti-affinity", "a", "b", "c", "d")
    assert place(pipeline, table, spec, ["a", "b"]) == ["h000", "h001"]
    assert place(pipeline, table, spec, ["c", "d"]) == ["h002", "h003"]
    assert place(pipeline, table, spec, ["e"]) == []


def test_affinity_goes_to_the_hosts_of_the_group():
    table, pipeline = fleet(), Pipeline([ServerGroupAffinityFilter()], [RAMWeigher()], engine=EAGER)
    for at, hosts in enumerate([["h002"], ["h001"], ["h002", "h001"], []]):
        place(pipeline, table, of_group("affinity", hosts=hosts), [f"i{at}"])


def test_an_instance_that_runs_already_may_stay_where_it_is():
    table, pipeline = (
        fleet(2, instances=[["u1"], ["u2"]]),
        Pipeline([ServerGroupAntiAffinityFilter()], [], engine=EAGER),
    )
    spec = of_group("anti-affinity", "u1", "u2")
    assert place(pipeline, table, spec, ["u9"]) == []
    assert place(pipeline, table, spec, ["u2"]) == ["h001"]
    assert place(pipeline, table, spec, ["u9"]) == []


# --- everything together -----------------------------------------------------------------------------


OWN = {
    "nothing of its own": {},
    "tried": {"retry": {"hosts": [("h001", "h001"), ("h010", "h010")]}},
    "shunned": {"ignore_hosts": ["H000", "h011"]},
    "tried and shunned": {"retry": {"hosts": [("h001", "h001")]}, "ignore_hosts": ["h000"]},
    "apart": {"scheduler_hints": {"different_host": ["u0", "u1"]}},
    "together": {"scheduler_hints": {"same_host": ["u2", "u5", "u7"]}},
    "bound": {"instance_group": {"policy": "affinity", "uuid": "g", "hosts": ["h003", "h006"]}},
    "first of its group": {"instance_group": {"policy": "affinity", "uuid": "g"}},
    "shuns all": {"ignore_hosts": [f"h{row:03}" for row in range(12)]},
    "tried on none": {"retry": {"hosts": []}},
}


@pytest.mark.usefixtures("holds_few")
@pytest.mark.parametrize("few_left", [0, 64])
@pytest.mark.parametrize("fields", OWN.values(), ids=OWN)
def test_a_request_with_hosts_of_its_own_gets_the_answer_of_a_new_pipeline(fields, few_left, monkeypatch):
    monkeypatch.setattr(overlay_module, "_FEW_LEFT", few_left)
    filters = [RetryFilter(), ComputeFilter(), DifferentHostFilter(), SameHostFilter(), ServerGroupAffinityFilter()]
    pipeline = Pipeline(filters, [by(RAMWeigher, -1.0), by(NumInstancesWeigher, 0.3)], engine=EAGER)
    table = fleet(
        12,
        free_ram_mb=[2000 + 300 * (row * 5 % 7) for row in range(12)],
        instances=[[f"u{row}"] for row in range(12)],
    )
    for number in range(6):
        place(pipeline, table, make_spec(memory_mb=600), [f"i{number}"])
        place(pipeline, table, make_spec(memory_mb=600, **fields), [f"j{number}"])
        place(pipeline, table, make_spec(memory_mb=2500, **fields), [f"k{number}", f"l{number}"])
        table.update(number, report(number, free_ram_mb=2500 + number, service={"up": number != 4}))


def test_requests_that_differ_in_the_hosts_they_were_tried_on_share_a_class():
    assert shared_part(make_spec(retry={"hosts": [("h001", "h001")]})) == make_spec()


@pytest.mark.parametrize("policy", ["affinity", "legacy"])
def test_requests_that_differ_in_the_hosts_they_are_bound_to_share_a_class(policy):
    assert shared_part(make_spec(instance_group={"policy": policy, "hosts": ["h001"]})) == make_spec()


def test_a_filter_may_be_there_twice():
    pipeline = Pipeline([ComputeFilter(), IoOpsFilter(), ComputeFilter()], [RAMWeigher()], engine=EAGER)
    table = fleet(4, service=[{}, {"up": False}, {}, {}], num_io_ops=[0, 0, 9, 0])
    assert place(pipeline, table, make_spec(), ["i1"]) == ["h000"]
    assert place(pipeline, table, make_spec(ignore_hosts=["h000"]), ["i2"]) == ["h003"]


def test_a_request_without_hosts_of_its_own_is_left_as_it_is():
    spec = make_spec(scheduler_hints={"query": "[]"}, instance_group={"policy": "anti-affinity"})
    assert shared_part(spec) is spec


def test_hints_that_are_no_hosts_of_its_own_stay():
    spec = make_spec(scheduler_hints={"query": "[]", "same_host": ["u1"]})
    assert dict(shared_part(spec).scheduler_hints) == {"query": ("[]",)}


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("place"),
            st.sampled_from([(512, 1), (4000, 1), (20000, 2), (512, 3), (1000, 2)]),
            st.sampled_from([None, "az1"]),
        ),
        st.tuples(st.just("release"), st.integers(0, 50), st.none()),
        st.tuples(
            st.just("report"),
            st.integers(0, 11),
            st.fixed_dictionaries(
                {
                    "free_ram_mb": st.sampled_from([-1, 600, 5000, 65536]),
                    "num_io_ops": st.sampled_from([0, 9]),
                    "service": st.sampled_from([{}, {}, {"up": False}]),
                    "aggregates": st.sampled_from([[], [], [], [{"ram_weight_multiplier": "-2"}]]),
                }
            ),
        ),
    ),
    max_size=14,
)


@pytest.mark.usefixtures("holds_few")
@pytest.mark.parametrize("multiplier", [1.0, -1.0])
@settings(max_examples=40)
@given(steps=STEPS)
def test_whatever_happens_the_answers_are_those_of_a_new_pipeline(multiplier, steps):
    table = fleet(12, free_ram_mb=[1000 + 900 * (row % 7) for row in range(12)])
    weighers = [by(RAMWeigher, multiplier), by(NumInstancesWeigher, -0.25)]
    pipeline = Pipeline([ComputeFilter(), IoOpsFilter(), CoreFilter()], weighers, engine=EAGER)
    placed = []
    for number, (kind, what, more) in enumerate(steps):
        if kind == "place":
            size, count = what
            spec = make_spec(memory_mb=size, availability_zone=more)
            uuids = [f"i{number}-{at}" for at in range(count)]
            place(pipeline, table, spec, uuids)
            placed += [(row, spec.for_instance(uuid)) for uuid in uuids for row in table.rows_of_instance(uuid)]
        elif kind == "release" and placed:
            table.release(*placed.pop(what % len(placed)))
        elif kind == "report":
            table.update(what, report(what, **more))
            placed = [each for each in placed if each[0] != what]


def test_a_family_is_cached_with_its_second_request_for_one_instance():
    cache = classes_of(make_hosts(4), ())
    assert cache.find(make_spec(), scans_before_caching=1) is None
    assert cache.find(make_spec(vcpus=2), scans_before_caching=1) is not None
    assert cache.find(make_spec(availability_zone="other")) is not None


def test_of_the_families_that_were_seen_only_so_many_are_remembered(monkeypatch):
    monkeypatch.setattr(cache_module, "MOST_SEEN", 2)
    cache = classes_of(make_hosts(4), ())
    for zone in ("a", "b", "c"):
        assert cache.find(make_spec(availability_zone=zone), scans_before_caching=1) is None
    assert cache.find(make_spec(availability_zone="a"), scans_before_caching=1) is None
    assert cache.find(make_spec(availability_zone="c"), scans_before_caching=1) is not None
