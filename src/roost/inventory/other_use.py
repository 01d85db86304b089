# SPDX-License-Identifier: Apache-2.0
"""Use of a node that a fleet file does not give: of consumers that it does not list, or lists without resources."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

from roost.hosts import HostRecord
from roost.hosts.record import is_bare_metal
from roost.inventory.node_writer import NodeAllocations
from roost.model.resources import UNLISTED, move_of, use_on
from roost.store.reconcile import KeyedRows
from roost.store.statements import Row


@dataclass(frozen=True)
class OtherUse:
    """Use of a node by consumers of which the ledger has the amounts, and the file does not."""

    allocations: NodeAllocations = field(default_factory=dict)
    memory_mb: int = 0
    """Used memory as nova counts it."""
    disk_gb: int = 0
    vcpus: int = 0
    instances: int = 0
    """How many of the consumers are instances or migrations; servers without allocations count too."""

    def add_to(self, row: Row) -> Row:
        """A node's row with this use added to what the file reports. A bare-metal node is then used whole."""
        if self == NO_OTHER_USE:
            return row
        if self.allocations and is_bare_metal(row["hypervisor_type"]):
            whole = {"memory_mb_used": row["memory_mb"], "local_gb_used": row["local_gb"], "vcpus_used": row["vcpus"]}
            return row | whole | {"free_ram_mb": 0, "free_disk_gb": 0}
        return row | {
            "vcpus_used": row["vcpus_used"] + self.vcpus,
            "memory_mb_used": row["memory_mb_used"] + self.memory_mb,
            "free_ram_mb": row["free_ram_mb"] - self.memory_mb,
            "local_gb_used": row["local_gb_used"] + self.disk_gb,
            "free_disk_gb": row["free_disk_gb"] - self.disk_gb,
            "running_vms": row["running_vms"] + self.instances,
        }

    def unreported(self, record: HostRecord) -> OtherUse:
        """Of listed instances: the use that figures of the record do not count, because it does not report them."""
        if not self.allocations:
            return self
        return replace(
            self,
            memory_mb=self.memory_mb if record.free_ram_mb is None else 0,
            disk_gb=self.disk_gb if record.free_disk_mb is None else 0,
            vcpus=self.vcpus if record.vcpus_used is None else 0,
            instances=0,
        )

    def subtract_from(self, amounts: dict[str, int]) -> dict[str, int]:
        """Amounts per resource class, without what these consumers have of them; nothing falls below 0."""
        if not self.allocations:
            return amounts
        own = {name: sum(each.get(name, 0) for each in self.allocations.values()) for name in amounts}
        return {name: amount - own[name] for name, amount in amounts.items() if amount > own[name]}


NO_OTHER_USE = OtherUse()


def sum_use(node_id: int, allocated: NodeAllocations, server_uuids: set[str], known: KeyedRows) -> OtherUse:
    """The use of these consumers. `server_uuids`: servers on the node; `known`: rows of the consumers, by uuid."""
    details = {uuid: json.loads(known[uuid,]["details"] or "{}") for uuid in allocated}
    uses = [use_on(details[uuid], node_id, amounts) for uuid, amounts in allocated.items()]
    # The ledger counts a migration as it counts an instance; the server on the source of a move is not another one.
    leaving = {uuid for uuid in server_uuids if move_of(uuid) in allocated}
    instances = {uuid for uuid in allocated if known[uuid,]["kind"] != UNLISTED} | server_uuids - leaving
    memory_mb, disk_gb, vcpus = (sum(use[at] for use in uses) for at in range(3))
    return OtherUse(allocated, memory_mb, disk_gb, vcpus, len(instances))
