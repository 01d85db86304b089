# SPDX-License-Identifier: Apache-2.0
"""Flavors: the sizes of virtual machines. Plugins of older nova releases read one like a dict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType, NoneType
from typing import Annotated, Any, ClassVar, Self

from roost.model.fields import Amount, AmountOrUnset, Checked, Label, OptionalText, TextMapping
from roost.model.kinds import FrozenDict, OfType
from roost.model.message_fields import FromMessage


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


_ID = OfType((str, int, NoneType), "is no number and no text", takes_flags=True)


@dataclass(frozen=True)
class Flavor(Checked, FromMessage, AttributesAsItems):
    """The size of one instance: vCPUs, memory (MiB), disks (GiB), and extra specs that filters read."""

    vcpus: Amount
    memory_mb: Amount
    root_gb: AmountOrUnset = 0
    ephemeral_gb: AmountOrUnset = 0
    swap: AmountOrUnset = 0
    """Swap disk, MiB (nova's unit)."""
    name: Label = ""
    id: Annotated[Any, _ID] = None
    flavorid: OptionalText = None
    extra_specs: TextMapping = field(default_factory=dict, hash=False)

    unheld: ClassVar[Mapping[str, Any]] = MappingProxyType(
        {"rxtx_factor": 1.0, "vcpu_weight": 0, "disabled": False, "is_public": True, "projects": ()}
        | dict.fromkeys(("description", "created_at", "updated_at"))
    )

    @property
    def disk_mb(self) -> int:
        """Sum of root, ephemeral and swap disk, in MiB."""
        return 1024 * (self.root_gb + self.ephemeral_gb) + self.swap

    def to_details(self) -> dict[str, Any]:
        """Size, names and extra specs, without defaults and without the id: what is stored with an instance."""
        fields = {name: value for name, default in _STORED_FIELDS.items() if (value := vars(self)[name]) != default}
        return fields | ({"extra_specs": dict(self.extra_specs)} if self.extra_specs else {})

    @classmethod
    def from_details(cls, details: Mapping[str, Any], flavor_id: Any) -> Self:
        """The flavor that `to_details` stored. It was checked before it was stored, and is not checked again."""
        flavor = object.__new__(cls)
        extra_specs = FrozenDict(details.get("extra_specs") or {})
        flavor.__dict__.update({**_STORED_FIELDS, **details, "extra_specs": extra_specs, "id": flavor_id})
        return flavor


_STORED_FIELDS: dict[str, Any] = {
    **dict.fromkeys(("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap"), 0),
    "name": "",
    "flavorid": None,
}
"""Fields of a flavor that are stored with an instance -> value that is left out."""
