# SPDX-License-Identifier: Apache-2.0
import copy
import pickle

import pytest

from roost.model import Decision, Score, Selection, Step
from roost.model.decision import Candidate, Ranked, RankedList, Scores, build_unchecked


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


# --- scores that are put together where somebody looks -------------------------------------------------

NOTED = ("RAMWeigher", "CPUWeigher", "OffWeigher", "FlatWeigher"), (3072.0, -2.0, 5.0, 7.0)
SPANS = ((1024.0, 5120.0), (-2.0, 6.0), (0.0, 9.0), (7.0, 7.0))
MULTIPLIERS = (-1.5, 1.0, 0.0, 2.0)
PLAIN = {
    "RAMWeigher": Score(3072.0, 0.5, -1.5),
    "CPUWeigher": Score(-2.0, 0.0, 1.0),
    "FlatWeigher": Score(7.0, 0.0, 2.0),
}


def scores():
    return Scores(*NOTED, SPANS, MULTIPLIERS)


def test_scores_are_those_of_the_numbers_between_their_extremes():
    assert dict(scores()) == PLAIN


def test_scores_equal_a_plain_mapping_from_either_side():
    assert scores() == PLAIN
    assert scores() == scores()
    assert dict(PLAIN) == scores()
    assert scores() != {**PLAIN, "CPUWeigher": Score(-2.0, 0.5, 1.0)}
    assert scores() != {}


def test_a_weigher_that_counts_for_nothing_on_a_host_is_not_among_its_scores():
    found = scores()
    assert ("OffWeigher" in found, len(found), list(found)) == (False, 3, list(PLAIN))
    with pytest.raises(KeyError):
        _ = found["OffWeigher"]


def test_a_weigher_that_was_not_asked_is_not_among_the_scores():
    with pytest.raises(KeyError):
        _ = scores()["DiskWeigher"]
    assert scores().get("DiskWeigher") is None


def test_without_weighers_there_are_no_scores():
    assert (dict(Scores((), (), (), ())), len(Scores((), (), (), ()))) == ({}, 0)


def test_scores_read_as_a_mapping():
    assert repr(scores()) == repr(PLAIN)


STANDINGS = [("a", "a1"), 1.5], [("b", "b1"), -0.5]


def standings():
    return RankedList([(*each, (*NOTED, SPANS, MULTIPLIERS)) for each in STANDINGS])


def plain_standings():
    return tuple(Ranked(*names, weight, dict(PLAIN)) for names, weight in STANDINGS)


def test_standings_are_a_sequence_of_hosts_with_their_scores():
    found = standings()
    assert (len(found), list(found), found[0].host, found[-1].node) == (2, list(plain_standings()), "a", "b1")
    assert (found[:1], found[5:]) == (plain_standings()[:1], ())


def test_standings_equal_a_plain_tuple_from_either_side():
    assert standings() == plain_standings()
    assert plain_standings() == standings()
    assert standings() == standings()
    assert standings() != plain_standings()[:1]
    assert standings() != plain_standings()[::-1]


def test_standings_are_no_list():
    assert standings() != list(plain_standings())


def test_without_hosts_standings_are_empty_and_false():
    assert (bool(RankedList([])), RankedList([]) == (), hash(RankedList([])) == hash(())) == (False, True, True)


def test_standings_know_their_length_before_anybody_is_put_together():
    assert len(RankedList([("not", "looked", "at")])) == 1


def test_standings_are_put_together_once():
    found = standings()
    assert found[0] is found[0]


def test_standings_read_as_a_tuple():
    assert repr(standings()) == repr(plain_standings())


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
@pytest.mark.parametrize("make", [scores, standings])
def test_a_copy_is_equal(make, duplicate):
    assert duplicate(make()) == make()


# --- records made in a hurry ---------------------------------------------------------------------------


def test_a_record_whose_fields_are_known_to_be_good_is_like_any_other():
    fields = {"host": "a", "node": "a1", "limits": {"memory_mb": 5}}
    assert build_unchecked(Candidate, fields) == Candidate(**fields)
    assert repr(build_unchecked(Candidate, fields)) == repr(Candidate(**fields))


def test_such_a_record_cannot_be_changed_either():
    with pytest.raises(AttributeError):
        build_unchecked(Candidate, {"host": "a", "node": "a1", "limits": {}}).host = "b"
