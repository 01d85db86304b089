# SPDX-License-Identifier: Apache-2.0
"""Conversion of records to and from JSON data."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

from roost.errors import FieldError
from roost.model.decision import Candidate, Decision, Ranked, Score, Selection
from roost.model.fields import MAPPING, Part, Record, kinds_of
from roost.model.kinds import OrNull
from roost.model.numa import topology_from_json
from roost.model.pci import pci_request_from_json
from roost.model.request import RequestSpec

RecordT = TypeVar("RecordT")

_UNPLACED: dict[str, Any] = {"pci_devices": [], "is_fully_consumed": True}
"""Fields that are set by placing a request -> value of an unplaced request, the only one accepted in JSON."""
_READ_BY_FUNCTION = ("numa_topology",)
"""Fields of a request that `request_from_json` parses with a function of their own."""


def from_json(cls: type[RecordT], data: Any, where: str = "") -> RecordT:
    """A record from a JSON object. `where` is the path that error messages put before the field."""
    record = Record(cls)
    return record.strict(data, where) if where else record.read(data)


def request_from_json(data: Any, where: str = "") -> RequestSpec:
    """A request from a JSON object, with its flavor, image, group and other nested records."""
    plain = dict(MAPPING.strict(data, where))
    for name, unplaced in _UNPLACED.items():
        if plain.pop(name, unplaced) not in (unplaced, None):
            raise FieldError(f"{where}.{name}" if where else name, "is not for requests", "leave it out")
    for name, record in _parts().items():
        if plain.get(name) is not None:
            plain[name] = record.strict(plain[name], f"{where}.{name}" if where else name)
    if isinstance(plain.get("pci_requests"), (list, tuple)):
        plain["pci_requests"] = tuple(
            pci_request_from_json(each, f"pci_requests[{at}]") for at, each in enumerate(plain["pci_requests"])
        )
    if isinstance(plain.get("numa_topology"), Mapping):
        plain["numa_topology"] = topology_from_json(plain["numa_topology"])
    return from_json(RequestSpec, plain, where)


@cache
def _parts() -> dict[str, Record[Any]]:
    """Field of a request -> parser of the nested record."""
    kinds = {name: each.kind if isinstance(each, OrNull) else each for name, each in kinds_of(RequestSpec).items()}
    parts = {name: each for name, each in kinds.items() if isinstance(each, Part)}
    return {name: Record(part.cls) for name, part in parts.items() if name not in _READ_BY_FUNCTION}


def to_json(record: Any) -> Any:
    """A record, or a container of records, as dicts, lists and scalars that the json module can write."""
    if isinstance(record, Decision):
        return {"selections": to_json(list(record.selections)), "decision": _decision(record)}
    if isinstance(record, Selection):
        return _selection(record)
    if isinstance(record, Ranked):
        scores = {name: to_json(score) for name, score in record.scores.items()}
        return {"host": record.host, "node": record.node, "weight": record.weight, "scores": scores}
    if isinstance(record, Score):
        return record._asdict() | {"contribution": record.contribution}
    if hasattr(record, "to_dict"):
        return to_json(record.to_dict())
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        return {each.name: to_json(getattr(record, each.name)) for each in dataclasses.fields(record)}
    if isinstance(record, Mapping):
        return {str(key): to_json(value) for key, value in record.items()}
    if isinstance(record, (set, frozenset)):
        return sorted(to_json(value) for value in record)
    if isinstance(record, (list, tuple)):
        return [to_json(value) for value in record]
    return record


def _decision(decision: Decision) -> dict[str, Any]:
    return {
        "hosts": decision.hosts,
        "wanted": decision.wanted,
        "summary": decision.summary,
        "steps": [
            {"stage": step.stage, "name": step.name, "before": step.before, "after": step.after}
            for step in decision.steps
        ],
        "weighers": list(decision.weighers),
        "best": to_json(list(decision.best)),
        "time_us": {stage: round(spent, 1) for stage, spent in decision.time_us.items()},
    }


def _selection(selection: Selection) -> dict[str, Any]:
    ranked = to_json(selection.ranked) if selection.ranked else {"weight": 0.0, "scores": {}}
    return {
        "host": selection.host,
        "node": selection.node,
        "instance_uuid": selection.instance_uuid,
        "limits": to_json(selection.limits),
        "alternates": [_candidate(each) for each in selection.alternates],
        "weight": ranked["weight"],
        "scores": ranked["scores"],
    }


def _candidate(candidate: Candidate) -> dict[str, str]:
    return {"host": candidate.host, "node": candidate.node}


def is_deeper_than(limit: int, value: Any) -> bool:
    """Whether lists and objects are nested in more than `limit` levels."""
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(limit):
        level = [
            child
            for each in level
            for child in (each.values() if isinstance(each, dict) else each)
            if isinstance(child, (dict, list))
        ]
        if not level:
            return False
    return True
