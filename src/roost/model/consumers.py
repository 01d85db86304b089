# SPDX-License-Identifier: Apache-2.0
"""Who holds resources of hosts, and how nova's host attributes count what they hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from roost.model.resources import DISK_GB, MEMORY_MB, VCPU

Amounts = Mapping[str, int]
"""Resource class -> amount."""

INSTANCE, MIGRATION, UNLISTED = "instance", "migration", "unlisted"
"""Kinds: a server; a move, which keeps what its server had; what no listed server accounts for."""


class Use(NamedTuple):
    """What an instance takes as nova's host attributes count it."""

    memory_mb: int = 0
    disk_gb: int = 0
    vcpus: int = 0

    def plus(self, other: Use, sign: int = 1) -> Use:
        """Both together, or less the other."""
        return Use(*(one + sign * another for one, another in zip(self, other, strict=True)))


def use_of(details: Mapping[str, Any], amounts: Mapping[str, int]) -> Use:
    """As it was noted with the claim; where nobody did, what the usual three classes say."""
    noted = details.get("use")
    return Use(*noted) if noted is not None else Use(*(amounts.get(name, 0) for name in (MEMORY_MB, DISK_GB, VCPU)))
