# SPDX-License-Identifier: Apache-2.0
"""What a virtual machine is made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

from roost.model import checks
from roost.model.image_properties import KNOWN, ImageProperties, take_properties
from roost.model.item_access import AttributesAsItems
from roost.model.message_fields import FromMessage


@dataclass(frozen=True)
class Image(FromMessage, AttributesAsItems):
    """An image: its properties, which filters read, and the least it needs.

    Properties are also attributes: `image.os_distro` is `image.properties.os_distro`, None where not set.
    """

    id: str | None = None
    name: str = ""
    properties: ImageProperties = field(default_factory=ImageProperties)
    """Any mapping of raw properties may be handed in: it is taken by the rules of `image_properties`."""
    disk_format: str | None = None
    container_format: str | None = None
    status: str | None = None
    min_ram: int = 0
    """Least memory of a flavor for this image, MiB."""
    min_disk: int = 0
    """Least root disk of a flavor for this image, GiB."""
    size: int | None = None
    """Size of the image file, bytes; None where nobody knows."""

    unheld: ClassVar[Mapping[str, Any]] = MappingProxyType(
        {"visibility": None, "protected": False, "checksum": None, "owner": None, "virtual_size": None, "tags": ()}
        | dict.fromkeys(("created_at", "updated_at", "direct_url"))
    )

    def __post_init__(self) -> None:
        for text in ("id", "name", "disk_format", "container_format", "status"):
            checks.optional_text(getattr(self, text), text)
        for amount in ("min_ram", "min_disk"):
            object.__setattr__(self, amount, checks.whole_number(getattr(self, amount), amount))
        if self.size is not None:
            object.__setattr__(self, "size", checks.whole_number(self.size, "size"))
        object.__setattr__(self, "name", self.name or "")
        object.__setattr__(self, "properties", take_properties(self.properties))

    def __getattr__(self, name: str) -> Any:
        # Called for what is no field; in a half-made copy that is `properties` itself, which must not loop.
        if name in KNOWN:
            return getattr(self.properties, name)
        return self.unheld_value(name)

    @property
    def traits_required(self) -> frozenset[str]:
        """Traits the host must have."""
        return frozenset(self.properties.get("traits_required", ()))
