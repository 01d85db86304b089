# SPDX-License-Identifier: Apache-2.0
"""Values of ours and their form on the wire, whatever they are: what a client hands to its transport."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from roost.errors import FieldError
from roost.hosts import Instance
from roost.model import Aggregate, RequestSpec
from roost.wire.aggregates_instances import (
    aggregate_to_object,
    aggregates_from_object,
    instances_from_object,
    instances_to_object,
)
from roost.wire.envelope import NAME, is_envelope
from roost.wire.request_spec import request_from_object, request_to_object
from roost.wire.selections import SelectedHost, selection_from_object, selection_to_object

DEEPEST = 16
"""Lists and mappings around objects are nested no deeper than this."""

_OUT: Mapping[type, Callable[[Any], Any]] = {
    RequestSpec: request_to_object,
    SelectedHost: selection_to_object,
    Aggregate: aggregate_to_object,
}
_IN: Mapping[str, Callable[[Any, str], Any]] = {
    "RequestSpec": request_from_object,
    "Selection": selection_from_object,
    "Aggregate": lambda value, where: aggregates_from_object(value, where)[0],
    "AggregateList": aggregates_from_object,
    "InstanceList": instances_from_object,
}


class NovaObjects:
    """Turns requests, selections, aggregates and instances into nova's objects, inside lists and mappings too."""

    def to_wire(self, value: Any) -> Any:
        """A copy that the json module can write."""
        if (write := _OUT.get(type(value))) is not None:
            return write(value)
        if isinstance(value, Mapping):
            return {key: self.to_wire(each) for key, each in value.items()}
        if isinstance(value, (list, tuple)):
            if value and all(isinstance(each, Instance) for each in value):
                return instances_to_object(value)
            return [self.to_wire(each) for each in value]
        return sorted(value) if isinstance(value, (set, frozenset)) else value

    def from_wire(self, value: Any, where: str = "result", deepest: int = DEEPEST) -> Any:
        """Our values; objects that are not known here stay as they came."""
        if not isinstance(value, (list, dict)):
            return value
        if not deepest:
            raise FieldError(where, "is nested too deeply", f"at most {DEEPEST} levels")
        if is_envelope(value):
            return self._read(value, where)
        if isinstance(value, dict):
            return {key: self.from_wire(each, f"{where}.{key}", deepest - 1) for key, each in value.items()}
        return [self.from_wire(each, f"{where}[{at}]", deepest - 1) for at, each in enumerate(value)]

    def _read(self, value: Any, where: str) -> Any:
        read = _IN.get(value[NAME]) if isinstance(value[NAME], str) else None
        return value if read is None else read(value, where)
