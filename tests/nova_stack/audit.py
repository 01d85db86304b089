# SPDX-License-Identifier: Apache-2.0
"""Compare placement's books with nova's database."""

import collections
import time

ENDED_MOVES = "('confirmed', 'reverted', 'completed', 'error', 'failed', 'cancelled', 'done')"
INSTANCES = (
    "select i.uuid, i.host, c.uuid, i.vcpus, i.memory_mb, i.root_gb + i.ephemeral_gb, i.vm_state, i.task_state"
    " from instances i left join compute_nodes c"
    " on c.host = i.host and c.hypervisor_hostname = i.node and c.deleted = 0 where i.deleted = 0"
)
NAMES = (
    " join resource_providers p on p.id = a.resource_provider_id"
    " join resource_classes r on r.id = a.resource_class_id"
)
CAPACITY = "(i.total - i.reserved) * i.allocation_ratio"
OVERBOOKED = (
    f"select p.name, r.name, sum(a.used), {CAPACITY} from allocations a{NAMES}"
    " join inventories i on i.resource_provider_id = a.resource_provider_id"
    " and i.resource_class_id = a.resource_class_id"
    f" group by p.name, r.name, i.total, i.reserved, i.allocation_ratio having sum(a.used) > {CAPACITY}"
)


def settled(cloud, seconds=15):
    """The audit, given some time: a server is ACTIVE a moment before the host that it left has released it."""
    give_up = time.monotonic() + seconds
    while not (result := audit(cloud))["ok"] and time.monotonic() < give_up:
        time.sleep(0.5)
    return result


def audit(cloud):
    """No provider is over its inventory, every allocation has its server or move, every server its allocation."""
    instances = cloud.rows("nova_cell1", INSTANCES)
    moves = cloud.rows("nova_cell1", f"select uuid from migrations where status not in {ENDED_MOVES}")
    moving, held = {uuid for (uuid,) in moves}, held_by_consumer(cloud)
    faults = overbooked(cloud) + [fault for each in instances if (fault := fault_of(each, held))]
    strangers = set(held) - {instance[0] for instance in instances} - moving
    faults += [f"{each} holds {held[each]} and is neither an instance nor a move under way" for each in strangers]
    return {
        "ok": not faults,
        "instances": len(instances),
        "consumers": len(held),
        "moves": len(set(held) & moving),
        "faults": len(faults),
        "first_faults": faults[:10],
    }


def held_by_consumer(cloud):
    """Consumer -> provider -> resource class -> amount, from placement's database."""
    held = collections.defaultdict(dict)
    rows = cloud.rows("placement", f"select a.consumer_id, p.uuid, r.name, a.used from allocations a{NAMES}")
    for consumer, provider, resource, used in rows:
        held[consumer].setdefault(provider, {})[resource] = used
    return held


def overbooked(cloud):
    """One line for each resource of a provider of which more is used than there is."""
    found = cloud.rows("placement", OVERBOOKED)
    return [f"{name} holds {used} {resource} of {limit}" for name, resource, used, limit in found]


def fault_of(instance, held):
    """What is wrong with the allocation of an instance that is at rest; empty where nothing is."""
    uuid, host, node, vcpus, memory_mb, disk_gb, vm_state, task_state = instance
    if task_state or vm_state == "building":
        return ""
    amounts = {"VCPU": vcpus, "MEMORY_MB": memory_mb, "DISK_GB": disk_gb}
    wanted = {node: {name: amount for name, amount in amounts.items() if amount}} if host else {}
    if held.get(uuid, {}) == wanted:
        return ""
    return f"{uuid} ({vm_state} on {host}) holds {held.get(uuid)}, not {wanted}"
