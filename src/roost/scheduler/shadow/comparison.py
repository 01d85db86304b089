# SPDX-License-Identifier: Apache-2.0
"""Compares Roost's choice for a request with the live scheduler's: the record of both."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from roost.scheduler.shadow.host_review import MOST_TIES, are_equal
from roost.scheduler.shadow.record import NOTIFICATION, TOPIC, ShadowRecord, Verdict
from roost.scheduler.shadow.trial import Trial


def compare_choices(trial: Trial, nova_host: str, nova_us: float | None = None) -> ShadowRecord:
    """The record of a request for which the live scheduler chose a host. `nova_us`: how long that took."""
    review = trial.review
    weight = review.weight_of(nova_host) if review else None
    rejected = review.why_not(nova_host) if review and weight is None else ""
    own = review.weight_of(trial.host) if review and trial.host else None
    if trial.host is None:
        verdict, why = Verdict.ROOST_NO_HOST, trial.summary
    elif trial.host == nova_host:
        verdict, why = Verdict.SAME, ""
    elif weight is not None and own is not None and are_equal(weight, own):
        verdict, why = Verdict.EQUAL_WEIGHT, ""
    else:
        verdict, why = Verdict.OTHER, _why_other(own, weight, rejected)
    record = record_of(trial, verdict, why, nova_us=nova_us)
    return replace(record, nova_host=nova_host, nova_weight=weight, nova_rejected=rejected)


def _why_other(own: float | None, weight: float | None, rejected: str) -> str:
    if rejected:
        return f"Roost rejects nova's host: {rejected}"
    if own is None or weight is None:
        return "the driver has no weights to compare"
    return f"Roost weighs nova's host {weight:.6g}, and its own {own:.6g}"


def compare_failure(trial: Trial, why: str) -> ShadowRecord:
    """The record of a request for which the live scheduler found no host. `why`: what it said."""
    if trial.host is None:
        return record_of(trial, Verdict.BOTH_NO_HOST, trial.summary)
    return record_of(trial, Verdict.NOVA_FAILED, why)


def record_of_topic(trial: Trial) -> ShadowRecord:
    """The record of a request on the shadow topic."""
    return record_of(trial, Verdict.DECIDED, "" if trial.host else trial.summary, source=TOPIC)


def record_of(
    trial: Trial, verdict: Verdict, why: str = "", *, source: str = NOTIFICATION, nova_us: float | None = None
) -> ShadowRecord:
    """The record of a request that Roost decided, without the live scheduler's choice."""
    review = trial.review
    ties = review.ties() if review else []
    return ShadowRecord(
        time=as_text(trial.decided_at),
        request_id=trial.request_id,
        instance=trial.instance,
        instances=trial.instances,
        source=source,
        verdict=verdict,
        why=why,
        roost_host=trial.host,
        roost_weight=review.weight_of(trial.host) if review and trial.host else None,
        ties=tuple(ties[:MOST_TIES]),
        tied=len(ties),
        roost_us=round(trial.roost_us, 1),
        refresh_us=round(trial.refresh_us, 1),
        nova_us=None if nova_us is None else round(nova_us, 1),
    )


def as_text(moment: datetime) -> str:
    """A moment as records have it: 2026-11-18T02:24:13.547Z."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
