# SPDX-License-Identifier: Apache-2.0
"""One instance whose class is known: what its decision says, and that it stays what it was."""

import itertools
import random

import pytest
from tests.engines import EAGER

from roost.errors import NoValidHost
from roost.filters.ram import RamFilter
from roost.scheduler import Pipeline
from roost.scheduler.choice import Choice
from roost.testing import make_hosts, make_spec
from roost.weighers.ram import RAMWeigher

SPEC = make_spec(memory_mb=512, instance_uuid="i1")


def hosts(**columns):
    roomy = {"host": ["a", "b", "c", "d"], "total_usable_ram_mb": [4000, 3000, 2000, 1000], "vcpus_total": 8}
    return make_hosts(**(roomy | columns))


def place(table, pipeline=None, spec=SPEC, alternates=0):
    pipeline = pipeline or Pipeline([], [RAMWeigher()], engine=EAGER)
    ticks = itertools.count(0, 1000)
    return pipeline.place(
        table, spec, ["i1"], randomness=random.Random(1), clock=ticks.__next__, alternates=alternates
    )


def test_the_best_host_is_taken_and_the_next_best_are_its_alternates():
    table = hosts()
    decision = place(table, alternates=2)
    (selection,) = decision.selections
    assert (selection.host, [each.host for each in selection.alternates]) == ("a", ["b", "c"])
    assert (selection.row, selection.placed, table.free_ram_mb.tolist()) == (0, SPEC, [3488, 3000, 2000, 1000])


def test_the_chosen_host_is_the_first_of_the_best_with_the_same_scores():
    decision = place(hosts())
    assert decision.selections[0].ranked == decision.best[0]
    assert [each.host for each in decision.best] == ["a", "b", "c", "d"]


def test_what_happens_later_does_not_show_in_a_decision():
    table, pipeline = hosts(), Pipeline([], [RAMWeigher()], engine=EAGER)
    decision = place(table, pipeline)
    place(table, pipeline, make_spec(memory_mb=3000))
    assert [each.scores["RAMWeigher"].raw for each in decision.best] == [4000, 3000, 2000, 1000]


def test_alternates_are_of_the_cell_of_the_chosen_host_however_far_down():
    columns = {"host": [f"h{row}" for row in range(9)], "total_usable_ram_mb": [9000 - 100 * row for row in range(9)]}
    table = hosts(**columns, cell=["one", *["two"] * 7, "one"])
    (selection,) = place(table, alternates=2).selections
    assert (selection.host, [each.host for each in selection.alternates]) == ("h0", ["h8"])


def test_where_chance_decides_the_best_of_the_others_come_after_the_chosen_one():
    pipeline = Pipeline([], [RAMWeigher()], Choice(host_subset_size=3), engine=EAGER)
    decision = place(hosts(), pipeline, alternates=3)
    first, *others = (each.host for each in decision.best)
    assert (first, others) == (decision.selections[0].host, sorted(others))


def test_the_only_host_left_is_not_weighed():
    decision = place(hosts(), spec=make_spec(memory_mb=3500))
    assert [(each.host, each.weight, dict(each.scores)) for each in decision.best] == [("a", 0.0, {})]
    assert decision.selections[0].ranked == decision.best[0]


def test_limits_travel_with_the_chosen_host_and_with_its_alternates():
    (selection,) = place(hosts(), Pipeline([RamFilter()], [RAMWeigher()], engine=EAGER), alternates=1).selections
    assert (selection.limits, selection.alternates[0].limits) == ({"memory_mb": 4000}, {"memory_mb": 3000})


def test_where_nobody_has_room_nothing_is_taken_and_the_steps_say_why():
    table = hosts()
    with pytest.raises(NoValidHost) as refused:
        place(table, spec=make_spec(memory_mb=9999))
    decision = refused.value.decision
    assert (decision.failed_at, decision.selections, decision.time_us["total"]) == (0, (), 1.0)
    assert decision.summary == "0 of 4 hosts fit: 4 ram (needs 9999 MiB, most free 4000)"
    assert table.changes.version == 0


def test_what_was_taken_is_given_back_where_the_limits_fail():
    class Broken(RamFilter):
        def ceilings(self, hosts, spec):
            raise RuntimeError("broken")

    table, pipeline = hosts(), Pipeline([Broken()], [], engine=EAGER)
    pipeline.engine.is_enabled = True
    with pytest.raises(RuntimeError, match="broken"):
        place(table, pipeline)
    assert (table.free_ram_mb.tolist(), table.rows_of_instance("i1")) == ([4000, 3000, 2000, 1000], ())


def test_the_times_of_the_stages_add_up():
    time_us = place(hosts()).time_us
    assert list(time_us) == ["prefilter", "capacity", "filter", "weigh", "choose", "total"]
    assert time_us["total"] == sum(time_us.values()) - time_us["total"] == 3.0
