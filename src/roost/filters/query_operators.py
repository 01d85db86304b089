# SPDX-License-Identifier: Apache-2.0
"""The operators of JSON queries and the references to host attributes, as nova defines them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from roost.errors import RuleError
from roost.hosts import HostView
from roost.hosts.hosts import attribute_of

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
