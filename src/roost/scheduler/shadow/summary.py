# SPDX-License-Identifier: Apache-2.0
"""The summary of a file of records: how often the schedulers agreed, and how long each took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from roost.scheduler.shadow.record import AGREED, COMPARED, VERDICTS, ShadowRecord, Verdict


@dataclass(frozen=True)
class Times:
    """Median and 99th percentile of durations, in microseconds; None without any."""

    count: int
    median_us: float | None
    p99_us: float | None

    @classmethod
    def of(cls, durations: Iterable[float | None]) -> Times:
        """Of those durations that are known."""
        known = sorted(each for each in durations if each is not None)
        return cls(len(known), _percentile(known, 50), _percentile(known, 99))


@dataclass(frozen=True)
class Summary:
    """What a file of records says."""

    counts: dict[str, int]
    """Verdict -> number of requests, for every verdict."""
    compared: int
    """Requests for which both choices are known."""
    agreed: int
    """Requests with the same host, one of equal weight, or none for both."""
    roost: Times
    refresh: Times
    nova: Times
    disagreements: tuple[ShadowRecord, ...]

    @property
    def agreed_per_cent(self) -> float | None:
        """Share of the compared requests on which both agreed; None where none was compared."""
        return 100 * self.agreed / self.compared if self.compared else None


def summarise(records: Sequence[ShadowRecord]) -> Summary:
    """The summary of these records."""
    counted = Counter(each.verdict for each in records)
    return Summary(
        counts={each: counted[each] for each in VERDICTS},
        compared=sum(counted[each] for each in COMPARED),
        agreed=sum(counted[each] for each in AGREED),
        roost=Times.of(each.roost_us for each in records),
        refresh=Times.of(each.refresh_us for each in records),
        nova=Times.of(each.nova_us for each in records),
        disagreements=tuple(each for each in records if is_disagreement(each)),
    )


def is_disagreement(record: ShadowRecord) -> bool:
    """Whether both choices are known, and differ by more than a tie."""
    verdict = Verdict(record.verdict)
    return verdict in COMPARED and verdict not in AGREED


def _percentile(known: Sequence[float], per_cent: int) -> float | None:
    """The smallest of the sorted durations that so many per cent do not exceed."""
    return known[max(0, -(-len(known) * per_cent // 100) - 1)] if known else None
