# SPDX-License-Identifier: Apache-2.0
"""Columns of things that are not numbers: a small integer per host and a list of the distinct values.

Hosts share few distinct aggregate sets, hypervisor types or cpu models, so a rule is asked once per distinct
value and its answers are spread to the rows with one `take`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np

from roost.hosts.arrays import Array


class Encoded:
    """One dictionary-encoded column."""

    def __init__(self, values: Iterable[Any], repeats: Array | None = None) -> None:
        self.values: list[Any] = []
        self._code_by_key: dict[Hashable, int] = {}
        codes = np.fromiter((self.encode(value) for value in values), dtype=np.int32)
        self.codes = codes if repeats is None else np.repeat(codes, repeats)

    def encode(self, value: Any) -> int:
        """The code that stands for this value; a new one for a value not seen before."""
        key = value if type(value) is frozenset else freeze(value)
        code = self._code_by_key.get(key)
        if code is None:
            code = self._code_by_key[key] = len(self.values)
            self.values.append(value)
        return code

    def set(self, row: int, value: Any) -> bool:
        """Change one row; tells whether that was a change."""
        code = self.encode(value)
        if self.codes[row] == code:
            return False
        self.codes[row] = code
        if len(self.values) > 1024 + 2 * len(self.codes):
            self._forget_unused()
        return True

    def at(self, row: int) -> Any:
        """The value of one row."""
        return self.values[self.codes[row]]

    def copy(self) -> Encoded:
        """An independent column; the values themselves are never changed and are shared."""
        twin = Encoded(())
        twin.values = list(self.values)
        twin._code_by_key = dict(self._code_by_key)
        twin.codes = self.codes.copy()
        return twin

    def _forget_unused(self) -> None:
        """Values that changed all day (free-form stats) would otherwise pile up."""
        used, codes = np.unique(self.codes, return_inverse=True)
        self.values = [self.values[code] for code in used]
        self._code_by_key = {freeze(value): code for code, value in enumerate(self.values)}
        self.codes = codes.astype(np.int32)


def freeze(value: Any) -> Hashable:
    """A hashable stand-in with the same equality; numbers and texts never stand for one another."""
    if isinstance(value, Mapping):
        return ("map", tuple(sorted((key, freeze(each)) for key, each in value.items())))
    if isinstance(value, (list, tuple)):
        return ("list", tuple(freeze(each) for each in value))
    if isinstance(value, (bool, int, float)):
        return (type(value).__name__, value)
    return value  # type: ignore[no-any-return]
