# SPDX-License-Identifier: Apache-2.0
"""Flavors, images and times as clients and reports are shown them: plain JSON data."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from roost.model.flavor import Flavor
from roost.model.image import Image

Record = dict[str, Any]


def describe_flavor(flavor: Flavor) -> Record:
    """A flavor: its id and name, its sizes and its extra specs."""
    sizes = {name: getattr(flavor, name) for name in ("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap")}
    names = {"id": flavor.flavorid or flavor.name or None, "name": flavor.name}
    return {**names, **sizes, "extra_specs": dict(flavor.extra_specs)}


def describe_image(image: Image) -> Record:
    """An image: its id, name and status, and the memory and disk that it needs."""
    found = {name: getattr(image, name) for name in ("id", "name", "status", "min_ram", "min_disk")}
    return found | {"status": image.status or "active"}


def time_text(moment: datetime | None) -> str | None:
    """A time as text in ISO 8601; None for None."""
    return moment.isoformat(timespec="seconds") if moment else None
