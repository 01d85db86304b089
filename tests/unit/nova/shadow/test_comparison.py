# SPDX-License-Identifier: Apache-2.0
"""What Roost thinks of every host at the moment of a decision, and the verdicts that follow from it."""

import datetime

import pytest

from roost.filters.compute import ComputeFilter
from roost.nova.shadow import trial as host_review
from roost.nova.shadow.comparison import compare_choices, compare_failure, record_of_topic
from roost.nova.shadow.trial import HostReview, RecordingChooser, TrialDecision
from roost.scheduler.pipeline import Pipeline
from roost.testing import make_hosts, make_spec
from roost.weighers.base import HostWeigher
from roost.weighers.ram import RAMWeigher

NOON = datetime.datetime(2026, 11, 18, 12, 0, 0, 123456, tzinfo=datetime.UTC)
RULES = Pipeline([ComputeFilter()], [RAMWeigher(RAMWeigher.Options())]).rules
SPEC = make_spec(memory_mb=512, instance_uuid="6a0b7c1e-5ef2-4a3e-9d7b-0c9b8f7a1e01")


@pytest.fixture
def table():
    """Hosts b and c are the best, a has less room, d is down, e is full; c has a second, worse node."""
    return make_hosts(
        host=["a", "b", "c", "c", "d", "e"],
        node=["a", "b", "c1", "c2", "d", "e"],
        vcpus_total=8,
        total_usable_ram_mb=8192,
        free_ram_mb=[2048, 4096, 4096, 1024, 8192, 8192],
        allocations=[{}, {}, {}, {}, {}, {"MEMORY_MB": 8000}],
        service=[{}, {}, {}, {}, {"up": False}, {}],
    )


@pytest.fixture
def review(table):
    return HostReview.of(RULES, table, SPEC)


def trial(review, host):
    summary = "1 of 1 placed" if host else "0 of 6 hosts fit"
    return TrialDecision("req-1", SPEC.instance_uuid, 1, NOON, host, summary, review, 250.04, 3000.0)


def test_every_host_has_a_weight_or_a_reason(review):
    assert {host: review.weight_of(host) for host in "abcde"} == {
        "a": 0.5,
        "b": 1.0,
        "c": 1.0,
        "d": None,
        "e": None,
    }
    assert review.why_not("a") == ""
    assert review.why_not("d").startswith("filter ComputeFilter: ")
    assert review.why_not("e").startswith("capacity ram: ")
    assert review.why_not("z") == "z is not in the replica"
    assert review.ties() == ["b", "c"]


def test_reasons_are_bounded(table, monkeypatch):
    monkeypatch.setattr(host_review, "MOST_REASONS", 1)
    review = HostReview.of(RULES, table, SPEC)
    assert review.why_not("e").startswith("capacity ram: ")
    assert review.why_not("d") == "filter ComputeFilter"


def test_few_reasons_are_kept_in_words():
    many = make_hosts(host=[f"h{number:03}" for number in range(200)], total_usable_ram_mb=256)
    reasons = [reason for loss in HostReview.of(RULES, many, SPEC)._losses for reason in loss.reasons]
    assert len(reasons) == 100


def test_the_review_does_not_move_with_the_table(table, review):
    table.consume(1, SPEC)
    assert (review.weight_of("b"), review.ties()) == (1.0, ["b", "c"])


@pytest.mark.parametrize(
    ("own", "novas", "verdict", "why"),
    [
        ("b", "b", "same", ""),
        ("b", "c", "equal_weight", ""),
        ("b", "a", "other", "Roost weighs nova's host 0.5, and its own 1"),
        ("b", "d", "other", "Roost rejects nova's host: filter ComputeFilter: "),
        ("b", "z", "other", "Roost rejects nova's host: z is not in the replica"),
        (None, "b", "roost_no_host", "0 of 6 hosts fit"),
    ],
)
def test_verdicts(review, own, novas, verdict, why):
    found = compare_choices(trial(review, own), novas, 120_000.0)
    assert (found.verdict, found.roost_host, found.nova_host) == (verdict, own, novas)
    assert found.why.startswith(why)
    assert bool(found.why) == bool(why)
    assert (found.roost_us, found.refresh_us, found.nova_us) == (250.0, 3000.0, 120_000.0)


def test_a_record_has_the_weights_and_ties_of_the_decision(review):
    found = compare_choices(trial(review, "b"), "a")
    assert (found.roost_weight, found.nova_weight, found.nova_rejected) == (1.0, 0.5, "")
    assert (found.ties, found.tied, found.nova_us) == (("b", "c"), 2, None)
    assert (found.time, found.source, found.instance) == (
        *("2026-11-18T12:00:00.123Z", "notification", SPEC.instance_uuid),
    )
    assert compare_choices(trial(review, "b"), "d").nova_rejected.startswith("filter ComputeFilter: ")


def test_failures_of_the_live_scheduler(review):
    found = compare_failure(trial(review, "b"), "NoValidHost: No valid host was found.")
    assert (found.verdict, found.why) == ("nova_failed", "NoValidHost: No valid host was found.")
    found = compare_failure(trial(review, None), "NoValidHost")
    assert (found.verdict, found.why) == ("both_no_host", "0 of 6 hosts fit")


def test_requests_of_the_topic_are_decided(review):
    assert [(each.verdict, each.source, each.why) for each in map(record_of_topic, (trial(review, "b"),))] == [
        ("decided", "topic", "")
    ]
    assert record_of_topic(trial(review, None)).why == "0 of 6 hosts fit"


def test_a_driver_without_weights_can_only_agree_or_not():
    assert compare_choices(trial(None, "b"), "b").verdict == "same"
    found = compare_choices(trial(None, "b"), "c")
    assert (found.verdict, found.why, found.ties) == ("other", "the driver has no weights to compare", ())


class Failing(HostWeigher):
    """A plugin that fails."""

    def _weigh_object(self, host_state, weight_properties):
        raise KeyError("no such thing")


def test_without_a_pipeline_or_with_a_plugin_that_fails_there_is_no_review(table):
    assert RecordingChooser(Pipeline([], [])).review(table) is None
    chooser = RecordingChooser(Pipeline([], [Failing()]))
    chooser._spec = SPEC
    assert chooser.review(table) is None


def test_a_request_that_was_not_put_to_the_chooser_has_no_review(table):
    chooser = RecordingChooser(Pipeline([ComputeFilter()], [RAMWeigher(RAMWeigher.Options())]))
    chooser._spec = SPEC  # of the request before
    assert chooser.review(table) is not None
    chooser.forget()
    assert chooser.review(table) is None
