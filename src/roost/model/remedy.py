# SPDX-License-Identifier: Apache-2.0
"""Remedies: what to change so that a rejected host passes the check that rejected it, in words and as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from roost.validation.display import shown

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
