# SPDX-License-Identifier: Apache-2.0
"""Which requests are answered from the cache, and what happens where the cache cannot hold the answers."""

import math
from unittest import mock

import pytest
from tests.engines import EAGER, FULL_SCAN
from tests.unit.scheduler.incremental.compared import Compared, fleet, report

from roost.errors import RoostError
from roost.filters.base import Filter
from roost.filters.compute import ComputeFilter
from roost.filters.json_query import JsonFilter
from roost.hosts import Inventory
from roost.scheduler.full_scan import FullScan
from roost.scheduler.incremental.engine import CachedSearch, IncrementalEngine, TieBreakingSearch
from roost.scheduler.incremental.ranking import Ranking
from roost.scheduler.incremental.request_class import RequestFamily
from roost.scheduler.pipeline import Pipeline
from roost.scheduler.search import Choice, StageTimes, Uncacheable
from roost.testing import make_spec
from roost.weighers.base import HostWeigher
from roost.weighers.metrics import MetricsWeigher
from roost.weighers.ram import RAMWeigher


def searches(pipeline, table, spec, *uuids, count=1, hosts=None):
    """The kinds of search that this request gets, time after time."""
    times = StageTimes(lambda: 0)
    return [type(pipeline.engine.search(table, spec, uuids or ["i1"], times, hosts)) for _ in range(count)]


def test_the_second_request_of_a_kind_is_answered_from_the_cache_and_several_instances_always():
    pipeline, table = Pipeline([], []), fleet()
    assert searches(pipeline, table, make_spec(), count=3) == [FullScan, CachedSearch, CachedSearch]
    assert searches(pipeline, table, make_spec(), hosts=table.in_the_running()) == [FullScan]
    assert searches(pipeline, table, make_spec(availability_zone="az1"), "i1", "i2") == [TieBreakingSearch]


PICKS_OF_3, SHUFFLES = Choice(host_subset_size=3), Choice(shuffles_best=True)


@pytest.mark.parametrize(
    ("fields", "uuids", "choice", "search"),
    [
        ({}, ["i1"], Choice(), CachedSearch),
        ({}, ["i1"], PICKS_OF_3, CachedSearch),
        ({}, ["i1", "i2"], PICKS_OF_3, FullScan),
        ({}, ["i1"], SHUFFLES, FullScan),
        ({"ignore_hosts": ["h000"]}, ["i1"], Choice(), CachedSearch),
        ({"ignore_hosts": ["h000"]}, ["i1", "i2"], Choice(), FullScan),
        ({"force_hosts": ["h000"]}, ["i1"], Choice(), FullScan),
        ({"force_nodes": ["h000"]}, ["i1"], Choice(), FullScan),
        ({"requested_destination": {"host": "h000"}}, ["i1"], Choice(), FullScan),
        ({"scheduler_hints": {"_nova_check_type": ["rebuild"]}}, ["i1"], Choice(), FullScan),
        ({"pci_requests": [{"count": 1, "spec": [{}]}]}, ["i1"], Choice(), FullScan),
        ({"numa_topology": {"cells": [{"id": 0, "cpuset": [0], "memory": 512}]}}, ["i1"], Choice(), FullScan),
        ({"instance_group": {"policy": "anti-affinity", "members": ["u1"]}}, ["i1"], Choice(), CachedSearch),
        ({"instance_group": {"policy": "anti-affinity", "members": ["u1"]}}, ["u1"], Choice(), FullScan),
    ],
)
def test_requests_that_look_at_few_hosts_or_at_more_than_columns_get_a_full_scan(fields, uuids, choice, search):
    pipeline, table = Pipeline([], [], choice, engine=EAGER), fleet(instances=[["u1"], [], []])
    assert searches(pipeline, table, make_spec(**fields), *uuids) == [search]


class FewIoOps(Filter):
    """A plugin on columns."""

    reads = frozenset({"num_io_ops"})


class FewestIoOps(HostWeigher):
    """A plugin in nova's shape."""


class FreeShare(RAMWeigher):
    """A plugin derived from a built-in weigher."""


def heat_weigher(ratio=1.0, required=False):
    return MetricsWeigher(MetricsWeigher.Options(weight_setting=(f"heat={ratio}",), required=required))


@pytest.mark.parametrize(
    ("filters", "weighers", "is_enabled"),
    [
        pytest.param([ComputeFilter()], [RAMWeigher(), MetricsWeigher()], True, id="built-in rules"),
        pytest.param([FewIoOps()], [], False, id="a plugin, although it declares what it reads"),
        pytest.param([], [FewestIoOps()], False, id="a plugin in nova's shape"),
        pytest.param([], [FreeShare()], False, id="a plugin derived from a built-in weigher"),
        pytest.param([], [heat_weigher(required=True)], False, id="a missing metric is an error"),
        pytest.param([], [heat_weigher()], True, id="a missing metric is no error"),
    ],
)
def test_only_built_in_rules_that_cannot_fail_are_cached(filters, weighers, is_enabled):
    assert Pipeline(filters, weighers).engine.is_enabled is is_enabled


# --- answers that cannot be cached ---------------------------------------------------------------------


def heat(value):
    return ({"name": "heat", "value": value},)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("problem", "ratio"), [(math.nan, 1.0), (1e308, 10.0), (1e308, -10.0)], ids=["nan", "infinite", "minus infinite"]
)
@pytest.mark.parametrize("uuids", ["i", "ijk"], ids=["one instance", "several"])
def test_weights_that_are_not_finite_get_a_full_scan_until_they_are_finite_again(problem, ratio, uuids):
    compared = Compared(fleet(8, metrics=[heat(float(row * 3 % 8)) for row in range(8)]), [], [heat_weigher(ratio)])
    for number, value in enumerate([3.0, 3.0, problem, problem, 0.0, 2.0, problem]):
        report(compared.table, 2, metrics=heat(value))
        compared.place(make_spec(), *(f"{uuid}{number}" for uuid in uuids))


@pytest.mark.filterwarnings("ignore:overflow")
def test_a_weight_that_is_not_finite_of_a_rejected_host_leaves_no_stale_answer():
    metrics, service = [heat(1.0), heat(2.0), heat(1e308)], [{}, {}, {"up": False}]
    compared = Compared(fleet(metrics=metrics, service=service), [ComputeFilter()], [heat_weigher(10.0)])
    assert compared.place(make_spec(), "i1") == ["h001"]
    report(compared.table, 0, metrics=heat(5.0))
    assert compared.place(make_spec(), "i2") == ["h000"]


@pytest.mark.parametrize("uuids", [["i1"], ["i1", "i2"]])
def test_a_request_of_more_than_254_checks_gets_a_full_scan(uuids):
    names = [f"CUSTOM_{number}" for number in range(300)]
    compared = Compared(fleet(2, resources=[dict.fromkeys(names, Inventory(8)), {}]), [], [RAMWeigher()])
    spec = make_spec(extra_specs={f"resources:{name}": "1" for name in names})
    assert compared.place(spec, *uuids) == ["h000"] * len(uuids)


# --- warm and forget -----------------------------------------------------------------------------------


def test_after_warming_a_request_finds_its_class_up_to_date(monkeypatch):
    compared = Compared(fleet(), [], [RAMWeigher()])
    compared.place(make_spec(), "i1")
    compared.pipeline.warm(compared.table, make_spec())
    monkeypatch.setattr(RequestFamily, "changes_since", lambda family, version: pytest.fail("not up to date"))
    assert searches(compared.pipeline, compared.table, make_spec()) == [CachedSearch]


def test_a_pipeline_caches_for_one_table_at_a_time():
    compared, here, there = Compared(None, [], [RAMWeigher()]), fleet(2), fleet(2, free_ram_mb=[1000, 9000])
    for number, (table, host) in enumerate([(here, "h000"), (there, "h001"), (here, "h001"), (there, "h001")]):
        compared.table = table
        assert compared.place(make_spec(), f"i{number}") == [host]


@pytest.mark.parametrize(
    "step",
    [
        lambda pipeline, table: pipeline.warm(table, make_spec()),
        lambda pipeline, table: pipeline.place(table, make_spec(), ["i2"], randomness=None, clock=lambda: 0),
    ],
    ids=["warm", "place"],
)
def test_an_update_that_fails_half_way_drops_the_cache(step, monkeypatch):
    compared = Compared(fleet(free_ram_mb=[9000, 8000, 7000]), [], [RAMWeigher()])
    compared.place(make_spec(), "i1")
    report(compared.table, 2, free_ram_mb=20000)
    with monkeypatch.context() as patched:
        patched.setattr(Ranking, "update", lambda *arguments: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            step(compared.pipeline, compared.table)
    assert compared.place(make_spec(), "i3") == ["h002"]


def test_a_request_that_proves_uncacheable_half_way_gets_a_full_scan_and_drops_the_cache(monkeypatch):
    compared = Compared(fleet(), [], [RAMWeigher()])
    compared.pipeline = compared.pipeline.fresh(IncrementalEngine)
    searches(compared.pipeline, compared.table, make_spec(), "i1", "i2")
    with monkeypatch.context() as patched:
        patched.setattr(Ranking, "update", mock.Mock(side_effect=Uncacheable))
        assert compared.place(make_spec(), "i1", "i2") == ["h000", "h001"]
    assert searches(compared.pipeline, compared.table, make_spec()) == [FullScan]


def test_a_request_that_fails_in_a_full_scan_leaves_the_cache():
    compared = Compared(fleet(), [JsonFilter()], [RAMWeigher()])
    compared.place(make_spec(), "i1")
    spec = make_spec(scheduler_hints={"query": "[bad"})
    with pytest.raises(RoostError):
        compared.pipeline.place(compared.table, spec, ["i2"], randomness=None, clock=lambda: 0)
    assert searches(compared.pipeline, compared.table, make_spec()) == [CachedSearch]


def test_a_fresh_pipeline_of_another_engine_stays_with_it():
    pipeline = Pipeline([], []).fresh(FULL_SCAN).fresh()
    assert [searches(pipeline, fleet(), make_spec()) for _ in range(2)] == [[FullScan]] * 2
