# SPDX-License-Identifier: Apache-2.0
"""Changes of requests that remedies suggest: applying them, and which ones give an instance less disk."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any

from roost.errors import UnknownName, nearest
from roost.model.flavor import Flavor
from roost.model.image_properties import ImageProperties, parse_properties
from roost.model.remedy import Change, RequestChange
from roost.model.request import RequestSpec


def apply_to_request(spec: RequestSpec, change: RequestChange) -> RequestSpec:
    """The request with one part changed. UnknownName for a part that it does not have, FieldError for a bad value."""
    changed: RequestSpec = _changed(spec, change.field, change.value)
    return changed


def apply_all_to_request(spec: RequestSpec, changes: Iterable[Change]) -> RequestSpec:
    """The request with those of the changes that are about requests, one after the other."""
    return reduce(apply_to_request, (each for each in changes if isinstance(each, RequestChange)), spec)


def _changed(record: Any, path: str, value: Any) -> Any:
    """A copy of a record or mapping in which the value at a dotted path is another one, or left out."""
    if isinstance(record, ImageProperties):
        rest = {name: each for name, each in record.items() if name != path}
        return ImageProperties(rest if value is None else {**rest, **parse_properties({path: value})})
    if isinstance(record, Mapping):  # its keys may have dots: the rest of the path is one key
        rest = {key: each for key, each in record.items() if key != path}
        return rest if value is None else {**rest, path: value}
    name, _, inner = path.partition(".")
    fields = {each.name: each for each in dataclasses.fields(record)} if dataclasses.is_dataclass(record) else {}
    if name not in fields:
        raise UnknownName(f"a request has no {path}", nearest(name, fields))
    if inner:
        value = _changed(getattr(record, name), inner, value)
    elif value is None and fields[name].default is not dataclasses.MISSING:
        value = fields[name].default
    return dataclasses.replace(record, **{name: value})


def disk_changes(flavor: Flavor, disk_mb: int, counts_root: bool = True) -> tuple[RequestChange, ...]:
    """Changes after which the disks of the flavor take at most this much, MiB; the root disk gives way first.

    `counts_root`: False where the root disk is a volume, which takes nothing of a host.
    """
    swap = min(flavor.swap, disk_mb)
    ephemeral_gb = min(flavor.ephemeral_gb, (disk_mb - swap) // 1024)
    root_gb = min(flavor.root_gb, (disk_mb - swap) // 1024 - ephemeral_gb) if counts_root else flavor.root_gb
    return _flavor_changes(flavor, root_gb=root_gb, ephemeral_gb=ephemeral_gb, swap=swap)


def exact_disk_changes(flavor: Flavor, disk_mb: int) -> tuple[RequestChange, ...]:
    """Changes after which the disks of the flavor take exactly this much, MiB."""
    ephemeral_gb = min(flavor.ephemeral_gb, disk_mb // 1024)
    root_gb = (disk_mb - min(flavor.swap, disk_mb)) // 1024 - ephemeral_gb
    root_gb = max(0, root_gb)
    swap = disk_mb - 1024 * (root_gb + ephemeral_gb)
    return _flavor_changes(flavor, root_gb=root_gb, ephemeral_gb=ephemeral_gb, swap=swap)


def _flavor_changes(flavor: Flavor, **fields: int) -> tuple[RequestChange, ...]:
    changed = {name: value for name, value in fields.items() if value != getattr(flavor, name)}
    return tuple(RequestChange(f"flavor.{name}", value) for name, value in changed.items())
