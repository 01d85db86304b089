# SPDX-License-Identifier: Apache-2.0
"""The filter for JSON queries: `["and", [">=", "$free_ram_mb", 1024], ["=", "$hypervisor_type", "QEMU"]]`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np

from roost.errors import RuleError
from roost.filters.base import Filter
from roost.filters.query_columns import QueryColumns
from roost.filters.query_operators import RULE, reference
from roost.hosts import Hosts, HostView
from roost.hosts.arrays import BoolArray
from roost.hosts.hosts import ATTRIBUTE_COLUMNS, ATTRIBUTES
from roost.model.kinds import shown
from roost.model.remedy import Remedy, RequestChange
from roost.model.request import RequestSpec

MAX_QUERY_CHARACTERS = 64 * 1024
MAX_QUERY_DEPTH = 64
MAX_QUERY_VALUES = 2000
"""Operators and arguments, nested ones included: a list of hosts may be long, a formula is not."""


class JsonFilter(Filter):
    """Keep only hosts for which the JSON query in the hint `query` is true.

    A query is a list of an operator and its arguments. `$name` is the value of a host attribute, `$stats.key` that of
    a nested entry. As in nova, `not` returns a list, and a list that is not empty is true.
    """

    reads = ATTRIBUTE_COLUMNS

    def applies_to(self, spec: RequestSpec) -> bool:
        """True if the hint `query` is set."""
        return bool(spec.get_scheduler_hint("query"))

    def query(self, spec: RequestSpec) -> Any:
        """The parsed query; RuleError if it is no JSON, too long, too large or nested too deeply."""
        text = spec.get_scheduler_hint("query")
        if not isinstance(text, str):
            raise RuleError(RULE, "several query hints", "TypeError", "give one")
        if len(text) > MAX_QUERY_CHARACTERS:
            raise RuleError(RULE, f"the query has {len(text)} characters", hint=f"at most {MAX_QUERY_CHARACTERS}")
        return _parse(text)

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """True for hosts for which the query is true."""
        if not self.applies_to(spec):
            return np.ones(len(hosts), dtype=np.bool_)
        return QueryColumns(hosts).truth(self.query(spec))

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """The values of the attributes that the query names."""
        paths = sorted(path for path in _paths(self.query(spec)) if path.split(".")[0] in ATTRIBUTES)
        values = ", ".join(f"{path} is {shown(reference(path, host))}" for path in paths)
        return f"the query is not true here{': ' + values if values else ''}"

    def remedy(self, host: HostView, spec: RequestSpec) -> Remedy | None:
        """A request without the query: what it should say instead cannot be known."""
        return Remedy("change the hint query, or leave it out", (RequestChange("scheduler_hints.query", None),))


@lru_cache(maxsize=16)
def _parse(text: str) -> Any:
    """The query; kept, because every instance of a request asks for it."""
    try:
        query = json.loads(text)
    except RecursionError:
        raise RuleError(RULE, "the query is nested too deeply", "RecursionError") from None
    except ValueError as error:
        raise RuleError(RULE, f"the query is not JSON: {error}", type(error).__name__) from None
    depth, values = _extent(query)
    if depth > MAX_QUERY_DEPTH:
        raise RuleError(RULE, f"the query is nested deeper than {MAX_QUERY_DEPTH} levels", "RecursionError")
    if values > MAX_QUERY_VALUES:
        raise RuleError(RULE, f"the query has {values} values", hint=f"at most {MAX_QUERY_VALUES}: ask for less")
    return query


def _extent(query: Any) -> tuple[int, int]:
    """The nesting depth of lists and mappings, and the number of all values; determined without recursion."""
    depth, values, level = 0, 0, [query]
    while level:
        depth, values = depth + 1, values + len(level)
        level = [each for outer in level for each in _children(outer)]
    return depth, values


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _paths(query: Any) -> set[str]:
    """All references in a query, without the `$`."""
    found, waiting = set(), [query]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            waiting.extend(each)
        elif isinstance(each, str) and each.startswith("$"):
            found.add(each[1:])
    return found
