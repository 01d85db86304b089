# SPDX-License-Identifier: Apache-2.0
"""Consumers of host resources: their kinds, and their use as nova's host attributes count it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple

from roost.model.resources import DISK_GB, MEMORY_MB, VCPU

Amounts = Mapping[str, int]
"""Resource class -> amount."""

INSTANCE, MIGRATION, UNLISTED = "instance", "migration", "unlisted"
"""Kinds of consumers: a server; a migration, which keeps the server's old allocation; usage of unlisted servers."""

_MOVES = uuid.UUID("0d5f4a5e-5f0b-5d3e-8c57-9c0c0b6f1d21")


def move_of(instance: str) -> str:
    """The consumer uuid of the migration that holds the source of a moving instance."""
    return str(uuid.uuid5(_MOVES, instance))


class Use(NamedTuple):
    """The resources that an instance uses, as nova's host attributes count them."""

    memory_mb: int = 0
    disk_gb: int = 0
    vcpus: int = 0

    def plus(self, other: Use, sign: int = 1) -> Use:
        """The sum of this use and `sign` times the other; sign -1 subtracts."""
        return Use(*(one + sign * another for one, another in zip(self, other, strict=True)))


def use_of(details: Mapping[str, Any], amounts: Mapping[str, int]) -> Use:
    """The use that was recorded with the claim; without a record, the allocated MEMORY_MB, DISK_GB and VCPU."""
    recorded = details.get("use")
    if recorded is not None:
        return Use(*recorded)
    return Use(*(amounts.get(name, 0) for name in (MEMORY_MB, DISK_GB, VCPU)))


def use_on(details: Mapping[str, Any], node_id: int, amounts: Amounts) -> Use:
    """The use of one node by a consumer that may hold several, in different sizes; else as `use_of` says."""
    recorded = details.get("uses", {}).get(str(node_id))
    return Use(*recorded) if recorded else use_of(details, amounts)
