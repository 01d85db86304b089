# SPDX-License-Identifier: Apache-2.0
"""A read-only dict. A subclass of dict, because plugins use isinstance(..., dict), copy it and dump it as JSON."""

from __future__ import annotations

import copy
from typing import Any, NoReturn, TypeVar

Value = TypeVar("Value")


class FrozenDict(dict[str, Value]):
    """A dict whose mutating methods raise TypeError; copies are ordinary dicts."""

    def _refuse(self, *arguments: Any, **named: Any) -> NoReturn:
        raise TypeError("this mapping cannot be changed; dict(it) is a copy that can")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Value]:
        return {name: copy.deepcopy(value, memo) for name, value in self.items()}

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenDict, (dict(self),)
