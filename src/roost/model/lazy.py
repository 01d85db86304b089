# SPDX-License-Identifier: Apache-2.0
"""Lazily computed attributes, and a cache keyed by object identity."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

Value = TypeVar("Value")


class lazy(Generic[Value]):  # noqa: N801 - used like a decorator of the language
    """`functools.cached_property` without the lock it has before Python 3.12, which dominates its cost."""

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> lazy[Value]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Value: ...
    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._compute(instance)
        return value


class IdentityCache(Generic[Value]):
    """A cache keyed by the identity of an object: no hashing, no comparing. Cleared when `most` entries are held."""

    def __init__(self, most: int = 1024) -> None:
        self._most = most
        self._entries: dict[int, tuple[object, Value]] = {}

    def get(self, key: object) -> Value | None:
        """The value cached for this very object; None if there is none."""
        entry = self._entries.get(id(key))
        return entry[1] if entry is not None and entry[0] is key else None

    def put(self, key: object, value: Value) -> Value:
        """Cache the value for this object; returns the value."""
        if len(self._entries) >= self._most:
            self._entries.clear()
        self._entries[id(key)] = key, value
        return value

    def clear(self) -> None:
        """Drop all entries."""
        self._entries.clear()
