# SPDX-License-Identifier: Apache-2.0
"""Dictionary-encoded columns: a small integer (the code) per host, and a list of the distinct values.

Hosts share few distinct aggregate sets, hypervisor types or CPU models. A rule is therefore evaluated once per
distinct value, and its answers are spread to the rows with one `take`. Also here: the types of the numpy arrays that
filters and weighers take and return.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
RowArray = NDArray[np.intp]


class Encoded:
    """A dictionary-encoded column: `values[codes[row]]` is the value of a row."""

    def __init__(self, values: Iterable[Any], repeats: Array | None = None) -> None:
        self.values: list[Any] = []
        self._derived: dict[Hashable, Any] = {}
        self._counts: list[int] = []
        self._code_by_key: dict[Hashable, int] = {}
        codes = self._encode_all(list(values))
        self.codes = codes if repeats is None else np.repeat(codes, repeats)
        if len(self.values) == 1:  # a broadcast view takes no memory until a row gets another value
            self.codes = np.broadcast_to(np.int32(0), len(self.codes))
        self._counts = np.bincount(self.codes, minlength=len(self.values)).tolist()
        """Code -> number of rows that have it."""

    def _encode_all(self, values: list[Any]) -> Array:
        """The codes of many values, as int32; objects that occur repeatedly are encoded once."""
        code_of = {id(value): self.encode(value) for value in {id(value): value for value in values}.values()}
        return np.array([code_of[id(value)] for value in values], dtype=np.int32)

    def encode(self, value: Any) -> int:
        """The code of a value; a new code for a value that the column did not have yet."""
        key = freeze(value)
        code = self._code_by_key.get(key)
        if code is None:
            code = self._code_by_key[key] = len(self.values)
            self.values.append(value)
            self._counts.append(0)
            self._derived.clear()
        return code

    def set(self, row: int, value: Any) -> bool:
        """Set the value of one row; True if it differs from the value before."""
        code, before = self.encode(value), self.codes.item(row)
        if before == code:
            return False
        if not self.codes.flags.writeable:
            self.codes = self.codes.copy()
        self.codes[row] = code
        self._counts[before] -= 1
        self._counts[code] += 1
        if len(self.values) > 1024 + 2 * len(self.codes):
            self._drop_unused()
        return True

    def used(self) -> list[int]:
        """The codes that at least one row has, ascending."""
        return [code for code, count in enumerate(self._counts) if count]

    def derive(self, name: Hashable, make: Callable[[list[Any]], Any]) -> Any:
        """`make(values)`, cached under `name` until the list of distinct values changes."""
        if name not in self._derived:
            self._derived[name] = make(self.values)
        return self._derived[name]

    def at(self, row: int) -> Any:
        """The value of one row."""
        return self.values[self.codes[row]]

    def copy(self) -> Encoded:
        """An independent copy. Values are immutable and shared; codes are shared copy-on-write."""
        self.codes.flags.writeable = False
        twin = Encoded(())
        twin.values = list(self.values)
        twin._code_by_key = dict(self._code_by_key)
        twin.codes = self.codes
        twin._counts = list(self._counts)
        return twin

    def concatenated(self, kept: Array, added: Encoded, order: Array) -> Encoded:
        """A new column: the rows `kept` of this one, then all rows of `added`, rearranged by `order`."""
        twin = self.copy()
        code_of = np.array([twin.encode(value) for value in added.values], dtype=np.int32)
        twin.codes = np.concatenate((self.codes[kept], code_of[added.codes]))[order]
        twin._counts = np.bincount(twin.codes, minlength=len(twin.values)).tolist()
        return twin

    def _drop_unused(self) -> None:
        """Drop values that no row has: values that change often (free-form stats) would accumulate without bound."""
        used, codes = np.unique(self.codes, return_inverse=True)
        self.values = [self.values[code] for code in used]
        self._derived.clear()
        self._code_by_key = {freeze(value): code for code, value in enumerate(self.values)}
        self.codes = codes.astype(np.int32)
        self._counts = np.bincount(self.codes).tolist()


def freeze(value: Any) -> Hashable:
    """A hashable key, equal for equal values of one type: 1, 1.0, True and "1" have four different keys."""
    if type(value) is frozenset:  # fast path: the flavor ids of a host change with every placement
        return value
    if isinstance(value, Mapping):
        return ("map", tuple(sorted((key, freeze(each)) for key, each in value.items())))
    if isinstance(value, (list, tuple)):
        return ("list", tuple(freeze(each) for each in value))
    if isinstance(value, (bool, int, float)):
        return (type(value).__name__, value)
    return value  # type: ignore[no-any-return]
