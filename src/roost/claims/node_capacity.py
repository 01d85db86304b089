# SPDX-License-Identifier: Apache-2.0
"""A locked compute node, and the capacity check of claims on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from roost.claims.node_guests import NodeGuests
from roost.hosts.capacity import ClassCapacity, missing_class_reason, shortage_reason
from roost.hosts.guests import Guest
from roost.hosts.numa_cells import OvercommitLimits
from roost.model.resources import Amounts, Use


@dataclass
class Node:
    """A compute node whose row is locked: its capacity, and what is allocated of it."""

    id: int
    uuid: str
    host: str
    name: str
    """Its hypervisor_hostname."""
    is_bare_metal: bool
    free: Use
    """Free memory (MiB), disk (GiB) and vCPUs by nova's host attributes; may be negative."""
    capacity: Mapping[str, ClassCapacity]
    """Resource class -> limit, unit constraints and allocated amount."""
    instances_delta: int = 0
    """Instances added less instances removed since the node was locked."""
    guests: NodeGuests | None = None
    """Pinned CPUs, NUMA memory and PCI devices; None if no operation of the transaction concerns them."""

    def check_capacity(self, amounts: Amounts) -> str:
        """Why the node cannot provide the amounts; an empty text if it can.

        A bare-metal node is provided whole, so nothing of it may be allocated yet, and it must have something.
        """
        if self.is_bare_metal:
            is_taken = any(each.allocated for each in self.capacity.values())
            if is_taken:
                return "the node is taken"
            return "" if self.granted_amounts(amounts) else "nothing of it is free"
        for name, asked in amounts.items():
            capacity = self.capacity.get(name)
            reason = missing_class_reason(name, asked) if capacity is None else shortage_reason(capacity, name, asked)
            if reason:
                return reason
        return ""

    def check_guest(self, guest: Guest | None, limits: OvercommitLimits | None) -> str:
        """Why the node cannot provide these CPUs, pages and devices any more; an empty text if it can."""
        if guest is None or self.is_bare_metal or self.guests is None:
            return ""
        return self.guests.space.shortage(guest, limits)

    def granted_amounts(self, amounts: Amounts) -> dict[str, int]:
        """What a claim of these amounts allocates: the amounts, or all that a bare-metal node has."""
        if not self.is_bare_metal:
            return dict(amounts)
        return {name: int(each.limit) for name, each in self.capacity.items() if each.limit >= 1}
