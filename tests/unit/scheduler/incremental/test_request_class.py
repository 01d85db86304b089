# SPDX-License-Identifier: Apache-2.0
"""When what is cached is patched and when it is rebuilt, and what classes of one family share."""

import pytest
from tests.unit.scheduler.incremental.compared import GPU, by, cache_of, fleet, report

from roost.filters.compute_capabilities import ComputeCapabilitiesFilter
from roost.hosts import Inventory
from roost.hosts.table import ChangeLog
from roost.model import Aggregate
from roost.scheduler.incremental import request_class
from roost.testing import make_spec
from roost.weighers.packing import BestFitWeigher
from roost.weighers.ram import RAMWeigher

ODD_AGGREGATE, SPARE = {"ram_weight_multiplier": "-1"}, Aggregate("spare", {"availability_zone": "az9"}, id=9)
IN_PAIRS = {"VCPU": Inventory(64, step_size=2)}


@pytest.mark.parametrize(
    ("change", "is_rebuilt"),
    [
        pytest.param(lambda table: report(table, 1, num_io_ops=7), False, id="one report"),
        pytest.param(lambda table: [report(table, row, num_io_ops=7) for row in range(60)], False, id="60 reports"),
        pytest.param(lambda table: [report(table, row, num_io_ops=7) for row in range(90)], True, id="90 reports"),
        pytest.param(lambda table: [report(table, 1, num_io_ops=at) for at in range(120)], True, id="forgotten"),
        pytest.param(lambda table: report(table, 1, aggregates=[ODD_AGGREGATE]), True, id="aggregates of a host"),
        pytest.param(lambda table: setattr(table, "known_aggregates", (SPARE,)), True, id="an empty aggregate"),
        pytest.param(lambda table: report(table, 1, resources={GPU: Inventory(1)}), True, id="a resource class"),
        pytest.param(lambda table: report(table, 1, resources=IN_PAIRS), True, id="portions"),
    ],
)
def test_few_changes_are_patched_and_others_rebuild_the_family(change, is_rebuilt):
    table = fleet(100)
    table.changes = ChangeLog(keep=100)
    for name in table.numbers:
        table.writable_column(name)  # a column that is replaced rebuilds the family, too
    cache = cache_of(table, weighers=[RAMWeigher()])
    before = cache.find(make_spec()).family.survivors
    change(table)
    assert (cache.find(make_spec()).family.survivors is not before) is is_rebuilt


def test_a_refusal_is_cached_until_a_host_changes():
    table = fleet(free_ram_mb=[100, 200, 300])
    cache, spec = cache_of(table), make_spec(memory_mb=5000)
    refusal = cache.find(spec).refusal()
    assert cache.find(spec).refusal() is refusal
    assert refusal[-1].detail == "needs 5000 MiB, most free 300"
    report(table, 1, free_ram_mb=4000)
    assert cache.find(spec).refusal()[-1].detail == "needs 5000 MiB, most free 4000"


@pytest.mark.parametrize("few", [0, 100], ids=["in bulk", "one by one"])
@pytest.mark.parametrize(
    ("resources", "rechecked"), [({}, [2, 3]), ({GPU: Inventory(4, min_unit=2)}, [0, 1, 2, 3])], ids=["", "portions"]
)
def test_classes_recheck_only_hosts_without_room_for_every_size(few, resources, rechecked, monkeypatch):
    """Where a resource class is given out in portions, room for much does not mean room for less."""
    monkeypatch.setattr(request_class, "FEW", few)
    table = fleet(4, resources=resources)
    extra_specs = {f"resources:{GPU}": "2"} if resources else {}
    small, large = (make_spec(memory_mb=each, extra_specs=extra_specs) for each in (1000, 40000))
    cache = cache_of(table)
    family = cache.find(large).family
    for row in range(4):
        table.consume(row, large if row in (2, 3) else small)
    cache.find(small)
    family.room_changes.clear()
    for row in range(4):
        table.consume(row, small)
    cache.find(small)
    assert family.room_changes == rechecked


@pytest.mark.usefixtures("holds_few")
def test_a_class_gets_a_ranking_of_its_own_where_the_top_rows_of_all_sizes_have_no_room_for_it():
    nearly_full = [600 + 10 * row for row in range(20)] + [20000, 30000, 20000, 40000]
    cache = cache_of(fleet(24, free_ram_mb=nearly_full), (), [by(RAMWeigher, -1.0)])
    small, large = cache.find(make_spec(memory_mb=100)), cache.find(make_spec(memory_mb=4000))
    for _ in range(3):
        assert [row for _, row in small.best(2)] == [0, 1]
        assert [row for _, row in large.best(2)] == [20, 22]
    assert small.ranking is small.family.ranking
    assert large.ranking is not large.family.ranking


@pytest.mark.parametrize(("multiplier", "rankings"), [(1.0, 3), (0.0, 1)])
def test_every_class_has_a_ranking_of_its_own_where_a_weigher_looks_at_the_size(multiplier, rankings):
    cache = cache_of(fleet(), (), [by(BestFitWeigher, multiplier)])
    small, large = cache.find(make_spec(memory_mb=100)), cache.find(make_spec(memory_mb=4000))
    assert len({id(each) for each in (small.ranking, large.ranking, small.family.ranking)}) == rankings


@pytest.mark.parametrize(("extra_specs", "can_follow"), [({}, True), ({"free_ram_mb": ">= 1000"}, False)])
def test_a_check_made_once_per_request_must_not_read_what_its_instances_change(extra_specs, can_follow):
    spec = make_spec(extra_specs=extra_specs)
    assert cache_of(fleet(), [ComputeCapabilitiesFilter()]).find(spec).can_follow(spec) is can_follow
