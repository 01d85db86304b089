# SPDX-License-Identifier: Apache-2.0
"""Evaluates a JSON query on all hosts together. Start reading at `QueryColumns.truth`.

A part of a query is a constant, an array of numbers, or an encoded column: codes, and the distinct values of them.
Comparisons of numbers, and `and` and `or`, are array operations; other operators are applied once per distinct
combination of their arguments, and their number is bounded.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from roost.errors import RuleError
from roost.filters.query_operators import COMPARISONS, RULE, apply_operator, is_true, reference, split_query
from roost.hosts import Hosts, HostView
from roost.hosts.arrays import Array, BoolArray
from roost.hosts.hosts import ATTRIBUTES, columns_behind

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
