# SPDX-License-Identifier: Apache-2.0
"""Flavors, images and server groups as rows, and rows as entries of a fleet file. These functions are pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roost.inventory.row_encoder import json_text
from roost.model import Flavor, Image, ServerGroup
from roost.model.image_properties import RULES_PER_NODE, ImageProperties
from roost.model.json_records import to_json
from roost.store.bulk import Row

_SIZES = ("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap")
_IMAGE_FIELDS = ("disk_format", "container_format", "status", "min_ram", "min_disk", "size")


def flavor_row(name: str, flavor: Flavor, flavorid: str | None) -> Row:
    """The row of `flavors`, without its name. `flavorid`: the one it has in the store, for a file that gives none."""
    known_by = flavor.flavorid or flavorid or name
    return {"flavorid": known_by, **{size: getattr(flavor, size) for size in _SIZES}}


def flavor_entry(row: Mapping[str, Any], extra_specs: Mapping[str, str]) -> dict[str, Any]:
    """A flavor as a fleet file has it. The row's number is the flavor's id: instances name it by that."""
    entry = {"name": row["name"], "id": row["id"], "vcpus": row["vcpus"], "memory_mb": row["memory_mb"]}
    if row["flavorid"] != row["name"]:
        entry["flavorid"] = row["flavorid"]
    entry |= {size: row[size] for size in _SIZES[2:] if row[size]}
    return entry | ({"extra_specs": dict(extra_specs)} if extra_specs else {})


def image_row(name: str, image: Image) -> Row:
    """The row of `images`, without its id."""
    fields = {each: getattr(image, each) for each in _IMAGE_FIELDS}
    return {"name": name, "properties": json_text(raw_properties(image.properties)), **fields}


def image_entry(row: Mapping[str, Any], has_own_id: bool) -> dict[str, Any]:
    """An image as a fleet file has it; its id only where it `has_own_id`, and not one made of its name."""
    entry = {"name": row["name"]} | ({"id": row["id"]} if has_own_id else {})
    entry |= {each: row[each] for each in _IMAGE_FIELDS if row[each]}
    return entry | ({"properties": row["properties"]} if row["properties"] else {})


def raw_properties(properties: ImageProperties) -> dict[str, Any]:
    """Image properties as a file has them: one of a NUMA node has the node's number behind its name."""
    found: dict[str, Any] = {}
    for name, value in properties.items():
        if name in RULES_PER_NODE:
            found |= {f"{name}.{at}": _of_node(each) for at, each in enumerate(value)}
        else:
            found[name] = to_json(value)
    return found


def _of_node(value: Any) -> Any:
    return ",".join(map(str, sorted(value))) if isinstance(value, frozenset) else value


def group_row(name: str, group: ServerGroup) -> Row:
    """The row of `server_groups`, without its uuid. Its hosts follow from its members, and are not stored."""
    limit = group.rules.get("max_server_per_host")
    return {"name": name, "policy": group.policy, "max_server_per_host": limit}


def group_entry(row: Mapping[str, Any], members: list[str], has_own_uuid: bool) -> dict[str, Any]:
    """A server group as a fleet file has it; its uuid only where it `has_own_uuid`, and not one made of its name."""
    entry = {"name": row["name"], "policy": row["policy"]} | ({"uuid": row["uuid"]} if has_own_uuid else {})
    if row["max_server_per_host"] is not None:
        entry["rules"] = {"max_server_per_host": row["max_server_per_host"]}
    return entry | ({"members": members} if members else {})
