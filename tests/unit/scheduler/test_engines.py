# SPDX-License-Identifier: Apache-2.0
"""What a decision says with a full scan and from the cache, besides what `test_pipeline.py` has."""

import itertools
import pickle
import random

import pytest
from tests.engines import EAGER, FULL_SCAN

from roost.errors import NoValidHost
from roost.filters.compute import ComputeFilter
from roost.filters.ram import RamFilter
from roost.scheduler.pipeline import Pipeline
from roost.scheduler.search import Choice
from roost.testing import make_hosts, make_spec
from roost.weighers.ram import RAMWeigher


@pytest.fixture(params=[EAGER, FULL_SCAN], ids=["cached", "full scan"])
def engine(request):
    return request.param


def hosts(**columns):
    roomy = {"host": ["a", "b", "c", "d"], "total_usable_ram_mb": [4000, 3000, 2000, 1000], "vcpus_total": 8}
    return make_hosts(**(roomy | columns))


def place(pipeline, table, *uuids, memory_mb=512, alternates=0, clock=lambda: 0):
    spec = make_spec(memory_mb=memory_mb)
    return pipeline.place(
        table, spec, uuids or ["i1"], randomness=random.Random(1), clock=clock, alternates=alternates
    )


def test_a_decision_says_what_was_chosen_and_consumed(engine):
    table = hosts()
    (selection,) = place(Pipeline([], [RAMWeigher()], engine=engine), table).selections
    assert (selection.host, selection.row, selection.instance_uuid) == ("a", 0, "i1")
    assert (selection.placed, table.free_ram_mb.tolist()) == (
        make_spec(memory_mb=512, instance_uuid="i1"),
        [3488, 3000, 2000, 1000],
    )


def test_later_requests_do_not_show_in_a_decision(engine):
    table, pipeline = hosts(), Pipeline([], [RAMWeigher()], engine=engine)
    decision = place(pipeline, table)
    place(pipeline, table, "i2", memory_mb=3000)
    assert [each.scores["RAMWeigher"].raw for each in decision.best] == [4000, 3000, 2000, 1000]
    assert decision.selections[0].ranked == decision.best[0]


@pytest.mark.parametrize(("uuids", "alternates"), [(["i1"], [["h8", "h9"]]), (["i1", "i2"], [["h8", "h9"]] * 2)])
def test_alternates_are_of_the_nova_cell_of_the_chosen_host_however_far_down(engine, uuids, alternates):
    ram = [90000, *(9000 - 100 * row for row in range(1, 10))]
    cells = ["one", *["two"] * 7, "one", "one"]
    table = hosts(host=[f"h{row}" for row in range(10)], total_usable_ram_mb=ram, cell=cells)
    decision = place(Pipeline([], [RAMWeigher()], engine=engine), table, *uuids, alternates=2)
    assert [each.host for each in decision.selections] == ["h0"] * len(uuids)
    assert [[other.host for other in each.alternates] for each in decision.selections] == alternates


def test_a_host_picked_by_chance_comes_first_and_the_best_of_the_others_after_it(engine):
    pipeline = Pipeline([], [RAMWeigher()], Choice(host_subset_size=3), engine=engine)
    decision = place(pipeline, hosts(), alternates=3)
    first, *others = (each.host for each in decision.best)
    assert (decision.selections[0].host, others) == (first, sorted({*"abcd"} - {first}))
    assert [each.host for each in decision.selections[0].alternates] == others


def test_the_only_host_left_is_not_weighed(engine):
    decision = place(Pipeline([], [RAMWeigher()], engine=engine), hosts(), memory_mb=3500)
    assert [(each.host, each.weight, dict(each.scores)) for each in decision.best] == [("a", 0.0, {})]
    assert decision.selections[0].ranked == decision.best[0]


def test_without_room_nothing_is_consumed_and_the_steps_say_why(engine):
    table, ticks = hosts(), itertools.count(0, 1000)
    with pytest.raises(NoValidHost) as refused:
        place(Pipeline([], [RAMWeigher()], engine=engine), table, memory_mb=9999, clock=ticks.__next__)
    decision = refused.value.decision
    assert (decision.failed_at, decision.selections, table.changes.version) == (0, (), 0)
    assert decision.summary == "0 of 4 hosts fit: 4 ram (needs 9999 MiB, most free 4000)"
    assert decision.time_us["total"] == {EAGER: 1.0, FULL_SCAN: 3.0}[engine]


@pytest.mark.parametrize("uuids", [["i1"], ["i1", "i2"]])
def test_what_was_consumed_is_released_where_the_limits_fail(engine, uuids, monkeypatch):
    monkeypatch.setattr(RamFilter, "ceilings", lambda *arguments: 1 / 0)
    table = hosts()
    with pytest.raises(ZeroDivisionError):
        place(Pipeline([RamFilter()], [], engine=engine), table, *uuids)
    assert (table.free_ram_mb.tolist(), table.rows_of_instance("i1")) == ([4000, 3000, 2000, 1000], ())


def test_the_times_of_the_stages_add_up_and_the_cache_reads_the_clock_once_per_stage(engine):
    ticks = itertools.count(0, 1000)
    pipeline = Pipeline([ComputeFilter()], [RAMWeigher()], engine=engine)
    time_us = place(pipeline, hosts(), clock=ticks.__next__).time_us
    assert list(time_us) == ["prefilter", "capacity", "filter", "weigh", "choose", "total"]
    assert time_us["total"] == sum(time_us.values()) - time_us["total"] == {EAGER: 3.0, FULL_SCAN: 7.0}[engine]


def test_a_refusal_is_its_summary_in_one_line_also_after_pickling(engine):
    with pytest.raises(NoValidHost) as caught:
        place(Pipeline([], [], engine=engine), hosts(), memory_mb=9000)
    error = pickle.loads(pickle.dumps(caught.value))
    assert error.decision == caught.value.decision
    for each in (caught.value, error):
        assert str(each) == each.message == each.decision.summary
        assert repr(each) == f"NoValidHost({each.message!r})"
