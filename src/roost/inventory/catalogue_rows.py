# SPDX-License-Identifier: Apache-2.0
"""Flavors, images and server groups as rows. Nothing here knows of a database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roost.inventory.bulk import Row
from roost.inventory.row_encoder import json_text
from roost.model import Flavor, Image, ServerGroup
from roost.model.image_properties import RULES_PER_NODE, ImageProperties
from roost.model.json_records import to_json

_SIZES = ("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap")
_IMAGE_FIELDS = ("disk_format", "container_format", "status", "min_ram", "min_disk", "size")


def flavor_row(name: str, flavor: Flavor, flavorid: str | None) -> Row:
    """The row of `flavors`. `flavorid`: the one it has in the store, for a file that gives none."""
    known_by = flavor.flavorid or flavorid or name
    return {"name": name, "flavorid": known_by, **{size: getattr(flavor, size) for size in _SIZES}}


def flavor_entry(row: Mapping[str, Any], extra_specs: Mapping[str, str]) -> dict[str, Any]:
    """The way back, for a fleet file. The row's number is the flavor's id: instances name it by that."""
    entry = {"name": row["name"], "id": row["id"], "vcpus": row["vcpus"], "memory_mb": row["memory_mb"]}
    if row["flavorid"] != row["name"]:
        entry["flavorid"] = row["flavorid"]
    entry |= {size: row[size] for size in _SIZES[2:] if row[size]}
    return entry | ({"extra_specs": dict(extra_specs)} if extra_specs else {})


def image_row(name: str, image: Image, image_id: str) -> Row:
    """The row of `images`."""
    fields = {each: getattr(image, each) for each in _IMAGE_FIELDS}
    return {"id": image_id, "name": name, "properties": json_text(raw_properties(image.properties)), **fields}


def image_entry(row: Mapping[str, Any], has_own_id: bool) -> dict[str, Any]:
    """The way back, for a fleet file."""
    entry = {"name": row["name"]} | ({"id": row["id"]} if has_own_id else {})
    entry |= {each: row[each] for each in _IMAGE_FIELDS if row[each]}
    return entry | ({"properties": row["properties"]} if row["properties"] else {})


def raw_properties(properties: ImageProperties) -> dict[str, Any]:
    """The properties as they may be written: what belongs to a NUMA node has its number behind the name."""
    found: dict[str, Any] = {}
    for name, value in properties.items():
        if name in RULES_PER_NODE:
            found |= {f"{name}.{at}": _of_node(each) for at, each in enumerate(value)}
        else:
            found[name] = to_json(value)
    return found


def _of_node(value: Any) -> Any:
    return ",".join(map(str, sorted(value))) if isinstance(value, frozenset) else value


def group_row(name: str, group: ServerGroup, group_uuid: str) -> Row:
    """The row of `server_groups`. The hosts of a group are where its members run, and not kept."""
    limit = group.rules.get("max_server_per_host")
    return {"uuid": group_uuid, "name": name, "policy": group.policy, "max_server_per_host": limit}


def group_entry(row: Mapping[str, Any], members: list[str], has_own_uuid: bool) -> dict[str, Any]:
    """The way back, for a fleet file."""
    entry = {"name": row["name"], "policy": row["policy"]} | ({"uuid": row["uuid"]} if has_own_uuid else {})
    if row["max_server_per_host"] is not None:
        entry["rules"] = {"max_server_per_host": row["max_server_per_host"]}
    return entry | ({"members": members} if members else {})
