# SPDX-License-Identifier: Apache-2.0
"""A query in the hint `query`: `["and", [">=", "$free_ram_mb", 1024], ["=", "$hypervisor_type", "QEMU"]]`."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from roost.errors import RuleError
from roost.filters.base import Filter
from roost.hosts import Hosts, HostView
from roost.hosts.arrays import BoolArray
from roost.hosts.attributes import ATTRIBUTES, COLUMNS, attribute_of, columns_behind
from roost.model.request import RequestSpec
from roost.validation.display import shown

MAX_CHARACTERS = 64 * 1024
MAX_DEPTH = 64
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}
_OPERATORS = {*_COMPARISONS, "in", "not", "or", "and"}


class JsonFilter(Filter):
    """Keep only hosts for which the JSON query in the hint `query` is true.

    A query is a list of an operator and its arguments; `$name` stands for a host attribute, `$stats.key` leads
    inside. As in nova, `not` gives a list, and a list that is not empty counts as true.
    """

    reads = COLUMNS

    def applies_to(self, spec: RequestSpec) -> bool:
        """There is a query."""
        return bool(spec.get_scheduler_hint("query"))

    def query(self, spec: RequestSpec) -> Any:
        """The query as JSON; RuleError where it is none, or too large."""
        text = spec.get_scheduler_hint("query")
        if not isinstance(text, str):
            raise RuleError(self.name, "several query hints", "TypeError", "give one")
        if len(text) > MAX_CHARACTERS:
            raise RuleError(self.name, f"the query has {len(text)} characters", hint=f"at most {MAX_CHARACTERS}")
        try:
            query = json.loads(text)
        except RecursionError:
            raise RuleError(self.name, "the query is nested too deeply", "RecursionError") from None
        except ValueError as error:
            raise RuleError(self.name, f"the query is not JSON: {error}", type(error).__name__) from None
        if _depth(query) > MAX_DEPTH:
            problem = f"the query is nested deeper than {MAX_DEPTH} levels"
            raise RuleError(self.name, problem, "RecursionError")
        return query

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """The query is true of it. Asked once per combination of the attributes it names."""
        if not self.applies_to(spec):
            return np.ones(len(hosts), dtype=np.bool_)
        query = self.query(spec)
        columns = columns_behind(path.split(".")[0] for path in _paths(query))
        if columns is None:
            return np.array([is_true(query, host) for host in hosts], dtype=np.bool_)
        return hosts.per_combination(columns, lambda host: is_true(query, host))

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """The attributes that the query looked at."""
        paths = sorted(path for path in _paths(self.query(spec)) if path.split(".")[0] in ATTRIBUTES)
        values = ", ".join(f"{path} is {shown(_reference(path, host))}" for path in paths)
        return f"the query is not true here{': ' + values if values else ''}"


def is_true(query: Any, host: HostView) -> bool:
    """The truth of a whole query; of a list, whether any member is true."""
    result = evaluate(query, host)
    return any(result) if isinstance(result, list) else bool(result)


def evaluate(query: Any, host: HostView) -> Any:
    """The value of a query or of a part of one."""
    if not query:
        return True
    if not isinstance(query, list):
        return _no_query(query)
    name = query[0]
    if not isinstance(name, (str, int, float, bool, type(None))):
        raise RuleError("JsonFilter", f"{name!r} is no operator", "TypeError")
    if name not in _OPERATORS:
        raise RuleError(
            "JsonFilter", f"{name!r} is no operator", "KeyError", f"one of {' '.join(sorted(_OPERATORS))}"
        )
    values = (_argument(each, host) for each in query[1:])
    return _apply(name, [value for value in values if value is not None])


def _no_query(query: Any) -> Any:
    """As in nova, which takes the first element of whatever it gets: a key of texts and mappings, none of numbers."""
    if isinstance(query, (str, Mapping)):
        raise RuleError("JsonFilter", f"{query!r} is no query", "KeyError", "write a list: [operator, argument, ...]")
    raise RuleError("JsonFilter", f"{query!r} is no query", "TypeError", "write a list: [operator, argument, ...]")


def _argument(value: Any, host: HostView) -> Any:
    if isinstance(value, list):
        return evaluate(value, host)
    if not isinstance(value, str):
        return value
    if not value:
        return None
    return _reference(value[1:], host) if value.startswith("$") else value


def _reference(path: str, host: HostView) -> Any:
    """What `$name.key.key` stands for; None where it stands for nothing, and the argument is then left out."""
    name, *keys = path.split(".")
    value = attribute_of(host, name)
    for key in keys:
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise RuleError("JsonFilter", f"${path}: {value!r} has no keys", "AttributeError")
        value = value.get(key)
    return value


def _apply(name: str, arguments: list[Any]) -> Any:
    if name == "not":
        return [not argument for argument in arguments]
    if name == "or":
        return any(arguments)
    if name == "and":
        return all(arguments)
    if len(arguments) < 2:
        return False
    first, rest = arguments[0], arguments[1:]
    if name == "in":
        return first in rest
    try:
        return all(_COMPARISONS[name](first, other) for other in rest)
    except TypeError as error:
        raise RuleError("JsonFilter", f"{name}: {error}", "TypeError") from None


def _depth(query: Any) -> int:
    """How deeply lists and mappings are nested, without recursion."""
    depth, level = 0, [query]
    while level:
        depth += 1
        level = [each for outer in level for each in _inside(outer)]
    return depth


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _paths(query: Any) -> set[str]:
    """What a query refers to, without the `$`."""
    found, waiting = set(), [query]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            waiting.extend(each)
        elif isinstance(each, str) and each.startswith("$"):
            found.add(each[1:])
    return found
