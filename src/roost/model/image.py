# SPDX-License-Identifier: Apache-2.0
"""Images that virtual machines boot from, and their properties: from free-form text to typed values.

Properties that `image_property_values.py` lists are accepted, under their modern names; others are dropped. Filters
and weighers read the result, never the raw text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Any, ClassVar

from roost.errors import nearest
from roost.model.fields import AmountOrUnset, Checked, Label, OptionalAmount, OptionalText
from roost.model.flavor import AttributesAsItems
from roost.model.image_property_values import (
    CONVERTERS,
    CONVERTERS_PER_NODE,
    LEGACY_NAMES,
    MAP_LIST_PROPERTIES,
    PROPERTY_NAMES,
    Converter,
    ImagePropertyError,
    property_error,
    thawed,
)
from roost.model.kinds import Kind, Schema
from roost.model.message_fields import FromMessage


@dataclass(frozen=True, eq=False, repr=False)
class ImageProperties(Mapping[str, Any]):
    """The properties that an image sets, converted: a mapping whose keys can be read as attributes too.

    `properties.os_distro` is None if os_distro is not set, and an AttributeError if there is no such property.
    Lists are tuples and sets are frozen; `to_dict` returns ordinary ones.
    """

    _values: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __getattr__(self, name: str) -> Any:
        if name in PROPERTY_NAMES:
            return self._values.get(name)
        raise AttributeError(f"there is no image property {name!r}: {nearest(name, PROPERTY_NAMES)}")

    def __hash__(self) -> int:
        # A FrozenDict has no hash: of a list of mappings only the property's name counts.
        plain = ((name, None if name in MAP_LIST_PROPERTIES else value) for name, value in self.items())
        return hash(frozenset(plain))

    def __repr__(self) -> str:
        return f"ImageProperties({self.to_dict()})"

    def to_dict(self) -> dict[str, Any]:
        """The properties that are set, with ordinary lists, sets and dicts: a copy that the caller may change."""
        return {name: thawed(value) for name, value in self.items()}

    def text_of(self, name: str) -> str:
        """The text of a property, as compared with other texts: `True`, `4`, `x86_64`. KeyError if not set."""
        return str(thawed(self[name]))


def parse_properties(raw: Mapping[str, Any]) -> ImageProperties:
    """The raw properties of an image, converted. Unknown ones are dropped; ImagePropertyError for a bad value."""
    if isinstance(raw, ImageProperties):
        return raw
    if not isinstance(raw, Mapping):
        raise property_error(raw, "is not a mapping", "write key: value pairs").under("properties")
    found = _by_modern_name(raw)
    parsed = {name: _convert(CONVERTERS[name], value, written) for name, (written, value) in found.items()}
    for name, convert in CONVERTERS_PER_NODE.items():
        if per_node := _values_per_node(raw, name, convert):
            parsed[name] = per_node
    if traits := _required_traits(raw):
        parsed["traits_required"] = tuple(dict.fromkeys((*parsed.get("traits_required", ()), *traits)))
    return ImageProperties(parsed)


class RawImageProperties(Kind[ImageProperties]):
    """The kind of the raw properties of an image; the value is `ImageProperties`."""

    def strict(self, value: Any, field: str) -> ImageProperties:
        """The properties, converted. Error paths begin with `properties`, whatever the path of the image is."""
        return parse_properties(value)

    @property
    def schema(self) -> Schema:
        """An object; unknown properties are allowed."""
        return {"type": "object"}


def _by_modern_name(raw: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
    """Modern name -> (name as written, raw value). Modern names win over legacy ones, both over the adapter type."""
    found = {name: ("vmware_adaptertype", value) for name, value in _from_adapter_type(raw).items()}
    found |= {modern: (legacy, raw[legacy]) for legacy, modern in LEGACY_NAMES.items() if legacy in raw}
    found |= {name: (name, raw[name]) for name in raw if name in CONVERTERS}
    return found


def _from_adapter_type(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The disk bus and SCSI model that the legacy property `vmware_adaptertype` implies."""
    adapter_type = raw.get("vmware_adaptertype")
    if not adapter_type:
        return {}
    if adapter_type == "ide":
        return {"hw_disk_bus": "ide"}
    return {"hw_disk_bus": "scsi", "hw_scsi_model": adapter_type}


def _values_per_node(raw: Mapping[str, Any], name: str, convert: Converter) -> tuple[Any, ...]:
    """The values of name.0, name.1, ..., up to the first that is missing."""
    values: list[Any] = []
    while (written := f"{name}.{len(values)}") in raw:
        values.append(_convert(convert, raw[written], written))
    return tuple(values)


def _required_traits(raw: Mapping[str, Any]) -> list[str]:
    """The traits of properties such as `trait:CUSTOM_A` = `required`."""
    marked = [name for name, value in raw.items() if isinstance(name, str) and value == "required"]
    return [name.removeprefix("trait:") for name in marked if name.startswith("trait:") and name != "trait:"]


def _convert(convert: Converter, value: Any, written: str) -> Any:
    """The converted value; errors get the path `properties.` and the name as it is written in the image."""
    try:
        if value is None:
            raise property_error(value, "is no value", "give it one, or leave the property out")
        return convert(value)
    except ImagePropertyError as error:
        raise error.under(f"properties.{written}") from None
    except RecursionError:
        raise ImagePropertyError(f"properties.{written}", "is nested too deeply") from None


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
