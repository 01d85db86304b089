# SPDX-License-Identifier: Apache-2.0
"""Flavors, images and server groups as rows, and rows as entries of a fleet file: pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roost.inventory.row_encoder import json_text
from roost.model import Flavor, Image, ServerGroup
from roost.model.image import ImageProperties
from roost.model.image_property_values import CONVERTERS_PER_NODE
from roost.model.json_records import to_json
from roost.store.statements import Row

_FLAVOR_SIZES = ("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap")
_IMAGE_FIELDS = ("disk_format", "container_format", "status", "min_ram", "min_disk", "size")


def flavor_row(name: str, flavor: Flavor, flavorid: str | None) -> Row:
    """The row of `flavors`, without its name. `flavorid`: the stored one, used if the flavor itself gives none."""
    return {
        "flavorid": flavor.flavorid or flavorid or name,
        **{size: getattr(flavor, size) for size in _FLAVOR_SIZES},
    }


def flavor_entry(row: Mapping[str, Any], extra_specs: Mapping[str, str]) -> dict[str, Any]:
    """A flavor as an entry of a fleet file. Its id is the row id, by which instances refer to it."""
    entry = {"name": row["name"], "id": row["id"], "vcpus": row["vcpus"], "memory_mb": row["memory_mb"]}
    if row["flavorid"] != row["name"]:
        entry["flavorid"] = row["flavorid"]
    entry |= {size: row[size] for size in _FLAVOR_SIZES[2:] if row[size]}
    return entry | ({"extra_specs": dict(extra_specs)} if extra_specs else {})


def image_row(name: str, image: Image) -> Row:
    """The row of `images`, without its id."""
    fields = {each: getattr(image, each) for each in _IMAGE_FIELDS}
    return {"name": name, "properties": json_text(raw_properties(image.properties)), **fields}


def image_entry(row: Mapping[str, Any], has_own_id: bool) -> dict[str, Any]:
    """An image as an entry of a fleet file. `has_own_id`: the id is not derived from the name, and is included."""
    entry = {"name": row["name"]} | ({"id": row["id"]} if has_own_id else {})
    entry |= {each: row[each] for each in _IMAGE_FIELDS if row[each]}
    return entry | ({"properties": row["properties"]} if row["properties"] else {})


def raw_properties(properties: ImageProperties) -> dict[str, Any]:
    """Image properties as a file has them: those per NUMA node have the number of the node appended to the name."""
    found: dict[str, Any] = {}
    for name, value in properties.items():
        if name in CONVERTERS_PER_NODE:
            found |= {f"{name}.{at}": _node_value(each) for at, each in enumerate(value)}
        else:
            found[name] = to_json(value)
    return found


def _node_value(value: Any) -> Any:
    return ",".join(map(str, sorted(value))) if isinstance(value, frozenset) else value


def group_row(name: str, group: ServerGroup) -> Row:
    """The row of `server_groups`, without its uuid. Hosts are not stored: they follow from the members."""
    limit = group.rules.get("max_server_per_host")
    return {"name": name, "policy": group.policy, "max_server_per_host": limit}


def group_entry(row: Mapping[str, Any], members: list[str], has_own_uuid: bool) -> dict[str, Any]:
    """A server group as an entry of a fleet file. `has_own_uuid`: the uuid is not derived from the name: included."""
    entry = {"name": row["name"], "policy": row["policy"]} | ({"uuid": row["uuid"]} if has_own_uuid else {})
    if row["max_server_per_host"] is not None:
        entry["rules"] = {"max_server_per_host": row["max_server_per_host"]}
    return entry | ({"members": members} if members else {})
