# SPDX-License-Identifier: Apache-2.0
"""Compares Roost's choice for a request with the live scheduler's, and keeps a record of both.

Records go to the log, the metrics, and a file of JSON lines. The summary of such a file says how often the schedulers
agreed, and how long each took.
"""

from __future__ import annotations

import dataclasses
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from errno import ENOSPC
from io import SEEK_END, FileIO
from pathlib import Path
from typing import Any, Protocol

import structlog

from roost.best_effort import best_effort
from roost.errors import BadInput, OptionError
from roost.nova.shadow.trial import MOST_TIES, TrialDecision, are_equal
from roost.services.logs import bound

NOTIFICATION, TOPIC = "notification", "topic"


class Verdict(StrEnum):
    """How Roost's choice for a request compares with the live scheduler's."""

    SAME = "same"
    EQUAL_WEIGHT = "equal_weight"
    """Another host, which Roost weighs the same as its own."""
    OTHER = "other"
    NOVA_FAILED = "nova_failed"
    """Roost has a host, the live scheduler found none."""
    ROOST_NO_HOST = "roost_no_host"
    BOTH_NO_HOST = "both_no_host"
    MOVE = "move"
    """A resize, migration, evacuation, rebuild or unshelving: counted, not compared."""
    UNKNOWN = "unknown"
    """Not comparable, or the live scheduler's host did not become known; the record says why."""
    DECIDED = "decided"
    """A request on the shadow topic, which the live scheduler never saw."""


VERDICTS = tuple(str(each) for each in Verdict)
COMPARED = (
    Verdict.SAME,
    Verdict.EQUAL_WEIGHT,
    Verdict.OTHER,
    Verdict.NOVA_FAILED,
    Verdict.ROOST_NO_HOST,
    Verdict.BOTH_NO_HOST,
)
"""Verdicts of requests for which both choices are known."""
AGREED = (Verdict.SAME, Verdict.EQUAL_WEIGHT, Verdict.BOTH_NO_HOST)


@dataclass(frozen=True)
class ShadowRecord:
    """One request. The names of the fields are the keys in the file, and stay."""

    time: str
    """When Roost decided, or the notification was taken, in UTC."""
    request_id: str
    instance: str | None
    """Uuid of the instance; of several in one request the first, whose host is compared."""
    instances: int
    """How many the request asks for."""
    source: str
    """notification, or topic."""
    verdict: str
    why: str = ""
    """What the verdict is due to, in words; empty where it says all."""
    roost_host: str | None = None
    roost_weight: float | None = None
    ties: tuple[str, ...] = ()
    """Hosts of the best weight, by Roost; at most MOST_TIES of them."""
    tied: int = 0
    """How many hosts have the best weight."""
    nova_host: str | None = None
    nova_weight: float | None = None
    """What Roost weighs nova's host; None where Roost rejects it."""
    nova_rejected: str = ""
    """Which of Roost's checks rejects nova's host, and why."""
    roost_us: float | None = None
    """Microseconds from the request to Roost's choice, the refresh left out."""
    refresh_us: float | None = None
    """Microseconds for the refresh of the replica before it."""
    nova_us: float | None = None
    """Microseconds between nova's notifications of start and end: its candidates are known by the first."""

    def to_line(self) -> str:
        """One line of JSON, without the line end."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_line(cls, line: str, where: str) -> ShadowRecord:
        """The record of a line; unknown keys are ignored. BadInput, with the place, for anything else."""
        try:
            data = json.loads(line)
        except ValueError:
            raise BadInput(f"{where}: this is no line of JSON", _HINT) from None
        if not isinstance(data, dict):
            raise BadInput(f"{where}: this is no JSON object", _HINT)
        return cls(**{each.name: _value_of(data, each, where) for each in dataclasses.fields(cls)})


_HINT = "give a file that [roost] shadow_report named"
_KINDS: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "str | None": (str, type(None)),
    "int": (int,),
    "float | None": (float, int, type(None)),
    "tuple[str, ...]": (list,),
}


def _value_of(data: dict[str, Any], field: dataclasses.Field[Any], where: str) -> Any:
    if field.name not in data:
        if field.default is dataclasses.MISSING:
            raise BadInput(f"{where}: {field.name} is missing", _HINT)
        return field.default
    value: Any = data[field.name]
    if not isinstance(value, _KINDS[str(field.type)]) or isinstance(value, bool):
        raise BadInput(f"{where}: {field.name} is {json.dumps(value)[:40]}", _HINT)
    if field.name == "verdict" and value not in VERDICTS:
        raise BadInput(f"{where}: verdict {str(value)[:40]!r} is none of {', '.join(VERDICTS)}", _HINT)
    return tuple(str(each) for each in value) if isinstance(value, list) else value


def _refuse(error: BadInput) -> None:
    raise error


def read_records(file: Path, on_wrong_line: Callable[[BadInput], object] = _refuse) -> Iterator[ShadowRecord]:
    """The records of a file, one after the other; BadInput where it cannot be read.

    `on_wrong_line`: gets the error that names the file and a line that is wrong, which is then skipped; without it,
    the error is raised.
    """
    try:
        with file.open(encoding="utf-8", errors="replace") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    try:
                        record = ShadowRecord.from_line(line, f"{file}, line {number}")
                    except BadInput as error:
                        on_wrong_line(error)
                    else:
                        yield record
    except OSError as error:
        raise BadInput(f"{file} cannot be read: {error.strerror or error}", _HINT) from None


def compare_choices(trial: TrialDecision, nova_host: str, nova_us: float | None = None) -> ShadowRecord:
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


def compare_failure(trial: TrialDecision, why: str) -> ShadowRecord:
    """The record of a request for which the live scheduler found no host. `why`: what it said."""
    if trial.host is None:
        return record_of(trial, Verdict.BOTH_NO_HOST, trial.summary)
    return record_of(trial, Verdict.NOVA_FAILED, why)


def record_of_topic(trial: TrialDecision) -> ShadowRecord:
    """The record of a request on the shadow topic."""
    return record_of(trial, Verdict.DECIDED, "" if trial.host else trial.summary, source=TOPIC)


def record_of(
    trial: TrialDecision, verdict: Verdict, why: str = "", *, source: str = NOTIFICATION, nova_us: float | None = None
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


LOG = structlog.get_logger(__name__)


class ShadowMetrics(Protocol):
    """What counts the requests of shadow mode."""

    def shadow_compared(self, verdict: str, roost_us: float | None, nova_us: float | None) -> None:
        """A request has its verdict; microseconds that each scheduler took, where they are known."""


class Journal:
    """Notes records. May be shared by threads."""

    def __init__(self, file: str, metrics: ShadowMetrics) -> None:
        """`file`: lines are added to it; empty for none. OptionError where it cannot be written."""
        self._path, self._metrics = file, metrics
        self._lock = threading.Lock()
        self._file: FileIO | None = _open(file) if file else None
        self._is_failing = False
        self._is_torn = bool(file) and _ends_within_a_line(Path(file))
        """Whether the file ends with a part of a line."""

    @best_effort("shadow")
    def note(self, record: ShadowRecord) -> None:
        """Count and log a record, and add it to the file."""
        self._metrics.shadow_compared(record.verdict, record.roost_us, record.nova_us)
        facts: dict[str, Any] = {"why": record.why, "roost_host": record.roost_host, "nova_host": record.nova_host}
        facts |= {"instance": record.instance, "source": record.source}
        times = {"roost_us": record.roost_us, "refresh_us": record.refresh_us, "nova_us": record.nova_us}
        facts |= {name: None if each is None else round(each) for name, each in times.items()}
        with bound(request_id=record.request_id):
            LOG.info("shadow", verdict=record.verdict, **{name: each for name, each in facts.items() if each})
        with self._lock:
            self._write(record.to_line())

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None

    def _write(self, line: str) -> None:
        """Add a line; the first failure and the recovery are logged."""
        if self._file is None:
            return
        data = f"\n{line}\n".encode() if self._is_torn else f"{line}\n".encode()
        try:
            written = self._file.write(data) or 0
            self._is_torn = written < len(data) and (written > 0 or self._is_torn)
            if written < len(data):
                raise OSError(ENOSPC, "the line was cut off: is the disk full?")
        except OSError as error:
            if not self._is_failing:
                LOG.warning("the report of shadow mode cannot be written", file=self._path, error=str(error))
            self._is_failing = True
        else:
            if self._is_failing:
                LOG.info("the report of shadow mode is written again", file=self._path)
            self._is_failing = False


def _ends_within_a_line(file: Path) -> bool:
    """Whether the last line of a file was cut off; False where it cannot be read, or is no regular file."""
    try:
        if not file.is_file() or not file.stat().st_size:
            return False
        with file.open("rb") as opened:
            opened.seek(-1, SEEK_END)
            return opened.read(1) != b"\n"
    except OSError:
        return False


def _open(file: str) -> FileIO:
    """The file, unbuffered: a line is in it at once, or lost, and does not come later."""
    try:
        return FileIO(file, "a")
    except OSError as error:
        problem = f"[roost] shadow_report: {file} cannot be written: {error.strerror or error}"
        raise OptionError(problem, "name a file in a folder that this user may write to") from None


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
