# SPDX-License-Identifier: Apache-2.0
"""Remedies: what to change so that a rejected host passes the check that rejected it, in words and as data.

Changes of requests are applied here. `counted` and `listed` write numbers and lists in the sentences of reasons.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from roost.errors import UnknownName, nearest
from roost.model.flavor import Flavor
from roost.model.image import ImageProperties, parse_properties
from roost.model.kinds import shown
from roost.model.request import RequestSpec

_NAMED_PARTS = {
    "flavor.extra_specs.": "extra spec",
    "image.properties.": "image property",
    "scheduler_hints.": "scheduler hint",
}
"""Path of the free-form parts of a request -> what one of their entries is called."""


@dataclass(frozen=True)
class HostChange:
    """A field of a host, set to another value."""

    host: str
    """Name of the host; of the node, where the host has several."""
    field: str
    """A field of a host entry in a fleet file; dotted for a nested one, such as `service.disabled`."""
    value: Any
    """Plain data, as a fleet file would have it."""


@dataclass(frozen=True)
class AggregateChange:
    """A metadata value of an aggregate, set to another text or removed."""

    aggregate: str
    key: str
    value: str | None
    """None: the key is removed."""


@dataclass(frozen=True)
class OptionChange:
    """An option of the scheduler, set to another value."""

    section: str
    name: str
    value: Any


@dataclass(frozen=True)
class RequestChange:
    """A part of the request, set to another value."""

    field: str
    """A field of `RequestSpec`; dotted for a nested one: `flavor.memory_mb`, `flavor.extra_specs.hw:numa_nodes`."""
    value: Any
    """Plain data; None: the part is left out."""

    @property
    def sentence(self) -> str:
        """The change in words: `set flavor.memory_mb to 49152`, `leave out the extra spec hw:cpu_policy`."""
        what = self.field
        for prefix, name in _NAMED_PARTS.items():
            if self.field.startswith(prefix):
                what = f"the {name} {self.field.removeprefix(prefix)}"
        return f"leave out {what}" if self.value in (None, (), []) else f"set {what} to {shown(self.value)}"


Change = HostChange | AggregateChange | OptionChange | RequestChange


@dataclass(frozen=True)
class Remedy:
    """One way to let a rejected host pass one check."""

    text: str
    """What an operator or the caller would do, with the numbers; several ways are joined by "or"."""
    changes: tuple[Change, ...] = ()
    """Data for one of these ways: with them applied, the host passes the check."""


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


def counted(number: int, noun: str) -> str:
    """`1 host`, `1,200 hosts`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def listed(names: Sequence[str], most: int = 3, total: int = 0) -> str:
    """`a, b and c`, or `a, b, c and 97 more`. `total`: how many there are, if `names` are only the first ones."""
    shown = list(names[:most])
    if (more := max(total, len(names)) - len(shown)) > 0:
        shown.append(f"{more:,} more")
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
