# SPDX-License-Identifier: Apache-2.0
"""The older, dict-like spelling of a record, for people's own filters: `flavor['memory_mb']`."""

from __future__ import annotations

from typing import Any


class AttributesAsItems:
    """Lets `record["field"]`, `record.get("field")` and `"field" in record` read attributes."""

    def __getitem__(self, key: str) -> Any:
        try:
            return getattr(self, key)
        except AttributeError:
            raise KeyError(key) from None

    def get(self, key: str, default: Any = None) -> Any:
        """The field of that name, or the default where there is no such field or it has no value."""
        try:
            value = self[key]
        except KeyError:
            return default
        return default if value is None else value

    def __contains__(self, key: str) -> bool:
        return self.get(key) is not None

    def obj_attr_is_set(self, name: str) -> bool:
        """Nova's way to ask whether a field has a value."""
        return name in self
