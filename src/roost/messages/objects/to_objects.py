# SPDX-License-Identifier: Apache-2.0
"""Serializer of RPC clients and servers: converts records in arguments and results to and from nova's objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from roost.errors import FieldError
from roost.hosts import Instance
from roost.messages.objects.aggregates_instances import (
    aggregate_to_object,
    aggregates_from_object,
    instances_from_object,
    instances_to_object,
)
from roost.messages.objects.envelope import NAME, is_envelope
from roost.messages.objects.request import request_from_object, request_to_object
from roost.messages.objects.selections import SelectedHost, selection_from_object, selection_to_object
from roost.model import Aggregate, RequestSpec

MAX_NESTING = 16
"""Maximum nesting of lists and mappings around objects."""

_WRITERS: Mapping[type, Callable[[Any], Any]] = {
    RequestSpec: request_to_object,
    SelectedHost: selection_to_object,
    Aggregate: aggregate_to_object,
}
_READERS: Mapping[str, Callable[[Any, str], Any]] = {
    "RequestSpec": request_from_object,
    "Selection": selection_from_object,
    "Aggregate": lambda value, where: aggregates_from_object(value, where)[0],
    "AggregateList": aggregates_from_object,
    "InstanceList": instances_from_object,
}


class NovaObjects:
    """Converts requests, selections, aggregates and instances to and from nova's objects, also inside containers."""

    def to_wire(self, value: Any) -> Any:
        """The value with records replaced by nova's objects: JSON data."""
        if (write := _WRITERS.get(type(value))) is not None:
            return write(value)
        if isinstance(value, Mapping):
            return {key: self.to_wire(each) for key, each in value.items()}
        if isinstance(value, (list, tuple)):
            if value and all(isinstance(each, Instance) for each in value):
                return instances_to_object(value)
            return [self.to_wire(each) for each in value]
        return sorted(value) if isinstance(value, (set, frozenset)) else value

    def from_wire(self, value: Any, where: str = "result", deepest: int = MAX_NESTING) -> Any:
        """The value with nova's objects replaced by records; unknown objects are left unchanged."""
        if not isinstance(value, (list, dict)):
            return value
        if not deepest:
            raise FieldError(where, "is nested too deeply", f"at most {MAX_NESTING} levels")
        if is_envelope(value):
            return self._read(value, where)
        if isinstance(value, dict):
            return {key: self.from_wire(each, f"{where}.{key}", deepest - 1) for key, each in value.items()}
        return [self.from_wire(each, f"{where}[{at}]", deepest - 1) for at, each in enumerate(value)]

    def _read(self, value: Any, where: str) -> Any:
        read = _READERS.get(value[NAME]) if isinstance(value[NAME], str) else None
        return value if read is None else read(value, where)
