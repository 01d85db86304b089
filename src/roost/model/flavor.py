# SPDX-License-Identifier: Apache-2.0
"""The size of a virtual machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

from roost.errors import FieldError
from roost.model import checks
from roost.model.item_access import AttributesAsItems
from roost.model.message_fields import FromMessage


@dataclass(frozen=True)
class Flavor(FromMessage, AttributesAsItems):
    """What one instance takes: CPUs, memory, disks, and the extra specs that filters read."""

    vcpus: int
    memory_mb: int
    root_gb: int = 0
    ephemeral_gb: int = 0
    swap: int = 0
    """Swap disk in MiB (nova's unit), unlike the other two disks."""
    name: str = ""
    id: Any = None
    flavorid: str | None = None
    extra_specs: Mapping[str, str] = field(default_factory=dict)

    unheld: ClassVar[Mapping[str, Any]] = MappingProxyType(
        {"rxtx_factor": 1.0, "vcpu_weight": 0, "disabled": False, "is_public": True, "projects": ()}
        | dict.fromkeys(("description", "created_at", "updated_at"))
    )

    def __post_init__(self) -> None:
        for amount in ("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap"):
            object.__setattr__(self, amount, checks.whole_number(getattr(self, amount), amount))
        checks.optional_text(self.name, "name")
        checks.optional_text(self.flavorid, "flavorid")
        if not isinstance(self.id, (int, str, type(None))):
            raise FieldError("id", f"{checks.shown(self.id)} is no number and no text")
        object.__setattr__(self, "extra_specs", checks.text_mapping(self.extra_specs, "extra_specs"))

    def __hash__(self) -> int:
        return hash((self.vcpus, self.memory_mb, self.root_gb, self.name))

    @property
    def disk_mb(self) -> int:
        """Root, ephemeral and swap disk together, in MiB."""
        return 1024 * (self.root_gb + self.ephemeral_gb) + self.swap
