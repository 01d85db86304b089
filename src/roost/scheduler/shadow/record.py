# SPDX-License-Identifier: Apache-2.0
"""The record of one request in shadow mode, and the file of JSON lines that holds them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from roost.errors import BadInput

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
