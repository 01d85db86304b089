# SPDX-License-Identifier: Apache-2.0
import pytest

from roost.model import Decision, Score, Selection, Step


def decision(steps=(), hosts=200, wanted=1, failed_at=0, chosen=()):
    return Decision(
        hosts=hosts,
        wanted=wanted,
        steps=tuple(Step("filter", *step) for step in steps),
        weighers=(),
        best=(),
        selections=tuple(Selection(host, host) for host in chosen),
        time_us={},
        failed_at=failed_at,
    )


def test_a_failure_adds_up_in_one_line_the_largest_first():
    steps = [
        ("ram", 200, 140, "needs 65536 MiB, most free 49152"),
        ("AvailabilityZoneFilter", 140, 20),
        ("IoOpsFilter", 20, 0),
    ]
    assert decision(steps).summary == (
        "0 of 200 hosts fit: 120 AvailabilityZoneFilter, 60 ram (needs 65536 MiB, most free 49152), 20 IoOpsFilter"
    )


def test_steps_that_took_out_nobody_are_not_named():
    assert decision([("ram", 200, 200), ("ComputeFilter", 200, 0)]).summary == "0 of 200 hosts fit: 200 ComputeFilter"


def test_equal_counts_come_in_the_order_of_their_steps():
    assert list(decision([("b", 200, 100), ("a", 100, 0)]).rejected) == ["b", "a"]


def test_a_step_that_was_asked_twice_is_counted_together():
    assert decision([("ram", 200, 150), ("other", 150, 100), ("ram", 100, 0)]).rejected == {"ram": 150, "other": 50}


def test_a_failure_of_many_names_the_instance():
    summary = decision([("ram", 200, 0)], wanted=3, failed_at=1).summary
    assert summary == "0 of 200 hosts fit instance 2 of 3: 200 ram"


def test_a_fleet_without_hosts_says_so():
    assert decision(hosts=0).summary == "0 of 0 hosts fit: there are no hosts"


@pytest.mark.parametrize(
    ("chosen", "summary"),
    [
        (["a"], "1 of 1 placed on a"),
        (["a", "b", "a"], "3 of 3 placed on a, b, a"),
        (["a", "b", "c", "d", "e"], "5 of 5 placed on a, b, c and 2 more"),
    ],
)
def test_a_success_names_the_first_three_hosts(chosen, summary):
    placed = decision(wanted=len(chosen), failed_at=None, chosen=chosen)
    assert (placed.summary, placed.is_placed) == (summary, True)


def test_a_failed_decision_is_not_placed():
    assert not decision(failed_at=0).is_placed


def test_a_score_contributes_its_multiple():
    assert Score(raw=2048.0, normalised=0.5, multiplier=-1.5).contribution == -0.75
