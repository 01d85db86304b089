# SPDX-License-Identifier: Apache-2.0
"""Things that are worked out when somebody first looks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

Value = TypeVar("Value")


class lazy(Generic[Value]):  # noqa: N801 - used like a decorator of the language
    """`functools.cached_property` without the lock it has before Python 3.12, which takes most of its time."""

    def __init__(self, work_out: Callable[[Any], Value]) -> None:
        self._work_out = work_out
        self.__doc__ = work_out.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> lazy[Value]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Value: ...
    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._work_out(instance)
        return value


class IdentityCache(Generic[Value]):
    """What was worked out for an object, as long as it is the very same: no hashing, no comparing."""

    def __init__(self, most: int = 1024) -> None:
        self._most = most
        self._known: dict[int, tuple[object, Value]] = {}

    def get(self, about: object) -> Value | None:
        """What is known about it."""
        known = self._known.get(id(about))
        return known[1] if known is not None and known[0] is about else None

    def put(self, about: object, value: Value) -> Value:
        """Remember this about it."""
        if len(self._known) >= self._most:
            self._known.clear()
        self._known[id(about)] = about, value
        return value

    def clear(self) -> None:
        """Forget everything."""
        self._known.clear()
