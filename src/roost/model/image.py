# SPDX-License-Identifier: Apache-2.0
"""Images that virtual machines boot from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Any, ClassVar

from roost.model.image_properties import ImageProperties, RawImageProperties
from roost.model.image_property_table import PROPERTY_NAMES
from roost.model.item_access import AttributesAsItems
from roost.model.message_fields import FromMessage
from roost.validation.records import Checked
from roost.validation.vocabulary import AmountOrUnset, Label, OptionalAmount, OptionalText


@dataclass(frozen=True)
class Image(Checked, FromMessage, AttributesAsItems):
    """An image: properties, which filters read, and the minimum memory and disk it needs.

    Properties are also attributes: `image.os_distro` is `image.properties.os_distro`, None if not set.
    """

    id: OptionalText = None
    name: Label = ""
    properties: Annotated[ImageProperties, RawImageProperties()] = field(default_factory=ImageProperties)
    """Any mapping of raw properties may be handed in: it is converted by `parse_properties`."""
    disk_format: OptionalText = None
    container_format: OptionalText = None
    status: OptionalText = None
    min_ram: AmountOrUnset = 0
    """Least memory of a flavor for this image, MiB."""
    min_disk: AmountOrUnset = 0
    """Least root disk of a flavor for this image, GiB."""
    size: OptionalAmount = None
    """Size of the image file, bytes; None if unknown."""

    unheld: ClassVar[Mapping[str, Any]] = MappingProxyType(
        {"visibility": None, "protected": False, "checksum": None, "owner": None, "virtual_size": None, "tags": ()}
        | dict.fromkeys(("created_at", "updated_at", "direct_url"))
    )

    def __getattr__(self, name: str) -> Any:
        # Called for missing attributes; in a copy under construction `properties` is one of them: avoid recursion.
        if name in PROPERTY_NAMES:
            return getattr(self.properties, name)
        return self.unheld_value(name)

    @property
    def traits_required(self) -> frozenset[str]:
        """Traits that the image requires of a host."""
        return frozenset(self.properties.get("traits_required", ()))
