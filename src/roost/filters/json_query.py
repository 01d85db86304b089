# SPDX-License-Identifier: Apache-2.0
"""The filter for JSON queries: `["and", [">=", "$free_ram_mb", 1024], ["=", "$hypervisor_type", "QEMU"]]`.

Operators and references to host attributes are nova's. A query is evaluated on all hosts together: start reading at
`QueryColumns.truth`. A part of a query is a constant, an array of numbers, or an encoded column: codes, and the
distinct values of them. Comparisons of numbers, and `and` and `or`, are array operations; other operators are applied
once per distinct combination of their arguments, and their number is bounded.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from roost.errors import RuleError
from roost.filters.base import Filter
from roost.hosts import Hosts, HostView
from roost.hosts.encoded import Array, BoolArray
from roost.hosts.hosts import ATTRIBUTE_COLUMNS, ATTRIBUTES, attribute_of, columns_behind
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


MOST_STEPS = 1_000_000
"""Values that operators look at one by one, on all hosts: about 0.3 s. Array operations do not count."""
STEPS_PER_HOST = 16
"""Such values per host that are allowed in any case: a short query is answered on a fleet of any size."""
_LARGEST_EXACT = 2**53
_SCALARS = (str, int, float)


class Constant(NamedTuple):
    """A value that all hosts share."""

    value: Any


class EncodedColumn(NamedTuple):
    """A value per host: its code, which is an index into `values`."""

    codes: Array
    values: list[Any]


Column = Constant | Array | EncodedColumn
"""A part of a query on all hosts. An array holds numbers or booleans, none of which is missing."""


class QueryColumns:
    """The parts of one query, evaluated on some hosts."""

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts
        self._steps = 0
        self._references: dict[str, Column] = {}

    def truth(self, query: Any) -> BoolArray:
        """For which hosts the query is true. RuleError if it cannot be evaluated for one, or takes too long."""
        if not len(self._hosts):
            return np.zeros(0, dtype=np.bool_)
        result = self._evaluate(query)
        if isinstance(result, EncodedColumn):
            return np.array([is_true(each) for each in result.values], dtype=np.bool_).take(result.codes)
        return np.full(len(self._hosts), is_true(result.value)) if isinstance(result, Constant) else result != 0

    def _evaluate(self, query: Any) -> Column:
        """The value of a query, or of a part of one; True for an empty query."""
        if not query:
            return Constant(True)
        name, given = split_query(query)
        arguments = [each for each in map(self._argument, given) if each is not _LEFT_OUT]
        constants = [each.value for each in arguments if isinstance(each, Constant)]
        if len(constants) == len(arguments):
            return Constant(apply_operator(name, constants))
        if name in ("and", "or"):
            return self._combine_truths(name, arguments)
        if name != "not" and all(map(_is_numeric, arguments)):
            return self._compare_numbers(name, arguments)
        if name == "in" and len(constants) == len(arguments) - 1 and not isinstance(arguments[0], Constant):
            return self._find_members(arguments[0], constants)
        return self._apply_by_combination(name, arguments)

    def _argument(self, value: Any) -> Column:
        """An argument: a nested query, a reference or a constant."""
        if isinstance(value, list):
            return self._evaluate(value)
        if isinstance(value, str) and value.startswith("$"):
            if value not in self._references:
                self._references[value] = self._reference(value[1:])
            return self._references[value]
        return _LEFT_OUT if value is None or value == "" else Constant(value)

    def _reference(self, path: str) -> Column:
        """The values of a reference `$name.key.key`, given without the `$`."""
        name, *keys = path.split(".")
        if name not in ATTRIBUTES:
            return _LEFT_OUT
        if not keys and name in self._hosts.table.numbers:
            return self._hosts.column(name)
        columns, values = columns_behind([name]), list[Any]()
        if columns is None:
            self._count_steps(len(self._hosts))
            return EncodedColumn(np.arange(len(self._hosts)), [reference(path, host) for host in self._hosts])

        def number(host: HostView) -> int:
            self._count_steps(1)
            values.append(reference(path, host))
            return len(values) - 1

        return EncodedColumn(self._hosts.per_combination(columns, number, np.int64), values)

    # --- operators -----------------------------------------------------------------------------------

    def _combine_truths(self, name: str, arguments: list[Column]) -> Array:
        """`and` or `or` of all arguments; a value that is missing for a host does not count there."""
        is_and = name == "and"
        combined = np.full(len(self._hosts), is_and)
        for each in arguments:
            if isinstance(each, EncodedColumn):
                truths = [is_and if value is None else bool(value) for value in each.values]
                truth: Any = np.array(truths, dtype=np.bool_).take(each.codes)
            else:
                truth = bool(each.value) if isinstance(each, Constant) else each != 0
            (np.logical_and if is_and else np.logical_or)(combined, truth, out=combined)
        return combined

    def _compare_numbers(self, name: str, arguments: list[Column]) -> Array:
        """The first number compared with each of the others: all must hold, or for `in` one."""
        first, *rest = (each.value if isinstance(each, Constant) else each for each in arguments)
        found = np.full(len(self._hosts), bool(rest) and name != "in")
        compare = COMPARISONS["=" if name == "in" else name]
        for other in rest:
            (np.logical_or if name == "in" else np.logical_and)(found, compare(first, other), out=found)
        return found

    def _find_members(self, column: Column, constants: list[Any]) -> EncodedColumn:
        """`in` with constants, once for each distinct value."""
        codes, values = _encoded(column)
        members = frozenset(constants) if all(isinstance(each, _SCALARS) for each in constants) else None
        is_quick = [members is not None and isinstance(value, _SCALARS) for value in values]
        self._count_steps(sum(1 if quick else len(constants) for quick in is_quick))
        found = [
            value in (members or ()) if quick else apply_operator("in", [*_present(value), *constants])
            for value, quick in zip(values, is_quick, strict=True)
        ]
        return EncodedColumn(codes, found)

    def _apply_by_combination(self, name: str, arguments: list[Column]) -> EncodedColumn:
        """Any operator, once for each distinct combination of its arguments."""
        key: Array = np.zeros(len(self._hosts), dtype=np.int64)
        columns = [each if isinstance(each, Constant) else _encoded(each) for each in arguments]
        for each in columns:
            if isinstance(each, EncodedColumn):
                self._count_steps(len(each.values))
                _, key = np.unique(key * len(each.values) + each.codes, return_inverse=True)
        positions = np.unique(key, return_index=True)[1]
        self._count_steps(len(positions) * len(arguments))
        parts = [
            [each.value] * len(positions)
            if isinstance(each, Constant)
            else [each.values[code] for code in each.codes[positions].tolist()]
            for each in columns
        ]
        given = ([value for value in values if value is not None] for values in zip(*parts, strict=True))
        return EncodedColumn(key, [apply_operator(name, values) for values in given])

    def _count_steps(self, steps: int) -> None:
        self._steps += steps
        if self._steps > max(MOST_STEPS, STEPS_PER_HOST * len(self._hosts)):
            problem = f"the query takes more than {MOST_STEPS} steps on {len(self._hosts)} hosts"
            raise RuleError(RULE, problem, hint="compare numbers with numbers, or ask for less")


_LEFT_OUT = Constant(None)
"""An argument without a value: operators do not see it."""


def _is_numeric(column: Column) -> bool:
    """Whether it holds numbers or booleans only; a number that float64 cannot hold exactly is none."""
    if isinstance(column, Constant):
        value = column.value
        return isinstance(value, float) or (isinstance(value, int) and abs(value) <= _LARGEST_EXACT)
    return not isinstance(column, EncodedColumn)


def _encoded(column: Any) -> EncodedColumn:
    """The column with codes: the distinct numbers of an array, as Python numbers."""
    if isinstance(column, EncodedColumn):
        return column
    numbers, codes = np.unique(column, return_inverse=True)
    return EncodedColumn(
        codes, [int(each) if type(each) is float and each.is_integer() else each for each in numbers.tolist()]
    )


def _present(value: Any) -> list[Any]:
    return [] if value is None else [value]


RULE = "JsonFilter"
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}
_OPERATORS = {*COMPARISONS, "in", "not", "or", "and"}
_REMEDY = "write a list: [operator, argument, ...]"


def split_query(query: Any) -> tuple[str, list[Any]]:
    """The operator of a query and its arguments; RuleError where it is no query.

    The type is that of nova, which indexes any value: KeyError for texts and mappings, TypeError for the rest.
    """
    if not isinstance(query, list):
        nova_type = "KeyError" if isinstance(query, (str, Mapping)) else "TypeError"
        raise RuleError(RULE, f"{query!r} is no query", nova_type, _REMEDY)
    name = query[0]
    if not isinstance(name, (str, int, float, bool, type(None))):
        raise RuleError(RULE, f"{name!r} is no operator", "TypeError")
    if name not in _OPERATORS:
        raise RuleError(RULE, f"{name!r} is no operator", "KeyError", f"one of {' '.join(sorted(_OPERATORS))}")
    return str(name), query[1:]


def apply_operator(name: str, arguments: list[Any]) -> Any:
    """The result for arguments that have a value: a list of booleans for `not`, else a boolean."""
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
        return all(COMPARISONS[name](first, other) for other in rest)
    except TypeError as error:
        raise RuleError(RULE, f"{name}: {error}", "TypeError") from None


def is_true(result: Any) -> bool:
    """Whether the result of a whole query is true; a list is true if any of its members is."""
    return any(result) if isinstance(result, list) else bool(result)


def reference(path: str, host: HostView) -> Any:
    """The value of a reference `$name.key.key`, given without the `$`; None if there is no such value."""
    name, *keys = path.split(".")
    value = attribute_of(host, name)
    for key in keys:
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise RuleError(RULE, f"${path}: {value!r} has no keys", "AttributeError")
        value = value.get(key)
    return value
