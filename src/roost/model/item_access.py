# SPDX-License-Identifier: Apache-2.0
"""Dict-like access to the fields of a record, for plugins of older nova releases: `flavor['memory_mb']`."""

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
        """The value of the field, or the default if there is no such field or its value is None."""
        try:
            value = self[key]
        except KeyError:
            return default
        return default if value is None else value

    def __contains__(self, key: str) -> bool:
        return self.get(key) is not None

    def obj_attr_is_set(self, name: str) -> bool:
        """Whether the field has a value that is not None; nova's name for `name in record`."""
        return name in self
