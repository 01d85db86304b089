# SPDX-License-Identifier: Apache-2.0
"""Flavors: the sizes of virtual machines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType, NoneType
from typing import Annotated, Any, ClassVar

from roost.model.item_access import AttributesAsItems
from roost.model.message_fields import FromMessage
from roost.validation.kinds import OfType
from roost.validation.records import Checked
from roost.validation.vocabulary import Amount, AmountOrUnset, Label, OptionalText, TextMapping

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
