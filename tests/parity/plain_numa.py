# SPDX-License-Identifier: Apache-2.0
"""NUMATopologyFilter and PciPassthroughFilter as plain loops, from spec/numa-pci.md: every permutation is tried.

Only whether a host passes; the order in which cells are tried does not matter for that. Nothing here looks at
`roost.filters`, `roost.hosts.numa*` or `roost.hosts.pci*` beyond the attributes of their records.
"""

from __future__ import annotations

from itertools import permutations
from typing import Any

SMALL, LARGE, ANY = -1, -2, -3


def numa_topology(host: Any, spec: Any, options: Any) -> bool:
    if host.numa is not None and wants_threads(spec) and not has_threads(host.numa):
        return False
    if spec.numa_topology is None:
        return True
    if host.numa is None:
        return False
    return any(numa_fits(host, spec, candidate["mappings"]) for candidate in host.allocation_candidates)


def wants_threads(spec: Any) -> bool:
    extra_specs, properties = spec.flavor.extra_specs, spec.image.properties if spec.image else {}
    is_dedicated = "dedicated" in (extra_specs.get("hw:cpu_policy"), properties.get("hw_cpu_policy"))
    is_required = "require" in (extra_specs.get("hw:cpu_thread_policy"), properties.get("hw_cpu_thread_policy"))
    return is_dedicated and is_required


def has_threads(numa: Any) -> bool:
    return any(len(core) > 1 for cell in numa.cells for core in cell.siblings)


def pci_passthrough(host: Any, spec: Any, options: Any) -> bool:
    if not spec.pci_requests:
        return True
    return any(
        pci_supported(host.pci_pools, spec.pci_requests, None, {}, candidate["mappings"])
        for candidate in host.allocation_candidates
    )


# --- NUMA (3) ----------------------------------------------------------------------------------------


def numa_fits(host: Any, spec: Any, mappings: Any) -> bool:
    wanted = spec.numa_topology
    sockets = {cell.id: cell.socket for cell in host.numa.cells}
    for chosen in permutations(host.numa.cells, len(wanted.cells)):
        fits = True
        for at, (cell, asked) in enumerate(zip(chosen, wanted.cells, strict=True)):
            overhead = 1 if at == 0 and wanted.emulator_threads_policy == "isolate" else 0
            fits = fits and pair_fits(cell, asked, overhead, host.cpu_allocation_ratio, host.ram_allocation_ratio)
        ids = {cell.id for cell in chosen}
        if fits and (
            not spec.pci_requests or pci_supported(host.pci_pools, spec.pci_requests, ids, sockets, mappings)
        ):
            return True
    return False


def pair_fits(cell: Any, asked: Any, overhead: int, cpu_ratio: float, ram_ratio: float) -> bool:
    has_own = asked.cpu_policy in ("dedicated", "mixed")
    if not memory_fits(cell, asked, has_own):
        return False
    if has_own and len(asked.pcpuset) + overhead > len(cell.pcpuset):
        return False
    if asked.cpu_policy != "dedicated" and len(asked.cpuset) > len(cell.cpuset):
        return False
    if has_own:
        free = cell.pcpuset - cell.pinned_cpus
        if len(asked.pcpuset) + overhead > len(free) or not can_pin(cell, asked, free, overhead):
            return False
    if asked.cpu_policy != "dedicated":
        if cell.cpu_usage + len(asked.cpuset) > len(cell.cpuset) * cpu_ratio:
            return False
        if cell.memory_usage + asked.memory > cell.memory * ram_ratio:
            return False
    return True


def memory_fits(cell: Any, asked: Any, has_own: bool) -> bool:
    kib = 1024 * asked.memory
    pools = sorted(cell.mempages, key=lambda pool: pool.size_kb, reverse=True)
    free = {pool.size_kb: (pool.total - pool.used - pool.reserved) * pool.size_kb for pool in pools}
    sizes = list(free)
    if asked.pagesize is not None:
        tried = {SMALL: sizes[-1:], LARGE: sizes[:-1], ANY: sizes}.get(asked.pagesize, [asked.pagesize])
        return any(size in free and kib <= free[size] and kib % size == 0 for size in tried)
    if not pools:
        return asked.memory <= (cell.memory - cell.memory_usage if has_own else cell.memory)
    smallest = pools[-1]
    room = free[smallest.size_kb] if has_own else smallest.total * smallest.size_kb
    return kib % smallest.size_kb == 0 and kib <= room


def can_pin(cell: Any, asked: Any, free: frozenset[int], overhead: int) -> bool:
    count, policy = len(asked.pcpuset), asked.cpu_thread_policy
    cores = [sorted(core & free) for core in cell.siblings]
    cores += [[cpu] for cpu in sorted(free) if not any(cpu in core for core in cell.siblings)]
    cores = [core for core in cores if core]
    most = max([len(core) for core in cell.siblings] + [1])
    if count == 0:
        if overhead or policy == "isolate":
            return False
        return policy != "require" or any(len(core) >= 2 for core in cores)
    if policy == "isolate":
        if most > 1 and cell.pcpuset != cell.cpuset:
            return False
        whole = [core for core in cores if len(core) >= most]
        if len(whole) < count:
            return False
        left = [cpu for core in cores if core not in whole[:count] for cpu in core]
        return len(left) >= overhead
    if policy == "require" and most < 2:
        return False
    for threads in range(most, 1 if policy == "require" else 0, -1):
        taken = [cpu for core in cores if len(core) >= threads for cpu in core[:threads]][:count]
        if len(taken) == count and len(free) - count >= overhead:
            return True
    return policy != "require" and len(free) >= count + overhead


# --- PCI (5) -----------------------------------------------------------------------------------------


def pci_supported(pools: Any, requests: Any, cells: set[int] | None, sockets: Any, mappings: Any) -> bool:
    left = [{"has": dict(pool.properties), "count": pool.count} for pool in pools]
    return all(serve(left, request, cells, sockets, mappings) for request in requests)


def serve(left: list[Any], request: Any, cells: set[int] | None, sockets: Any, mappings: Any) -> bool:
    """Take the devices of one request out of the pools that are left."""
    usable = usable_pools(left, request, cells, sockets)
    providers = providers_of(request, mappings)
    if providers:
        usable = [pool for pool in usable if 0 < providers.get(pool["has"].get("rp_uuid"), 0) <= pool["count"]]
    if total(usable) < request.count or not usable:
        return False
    if providers:
        by_provider = {pool["has"]["rp_uuid"]: pool for pool in usable}
        if set(by_provider) != set(providers):
            return False
        for provider, count in providers.items():
            take(left, by_provider[provider], count)
        return True
    missing = request.count
    for pool in usable:
        portion = min(missing, pool["count"])
        take(left, pool, portion)
        missing -= portion
    return True


def usable_pools(left: list[Any], request: Any, cells: set[int] | None, sockets: Any) -> list[Any]:
    """Steps 1 to 5; nothing once there are too few."""
    usable = [pool for pool in left if any(has_all(pool["has"], wanted) for wanted in request.spec)]
    if total(usable) < request.count:
        return []
    if cells:
        usable = near_enough(usable, request, cells, sockets)
        if total(usable) < request.count:
            return []
    for kind in ("type-PF", "vdpa"):
        if not any(wanted.get("dev_type") == kind for wanted in request.spec):
            usable = [pool for pool in usable if pool["has"].get("dev_type") != kind]
    if not any(wanted.get("remote_managed") == "true" for wanted in request.spec):
        usable = [pool for pool in usable if pool["has"].get("remote_managed") != "true"]
    return usable


def take(left: list[Any], pool: Any, count: int) -> None:
    """A pool that this empties is gone."""
    pool["count"] -= count
    if count and not pool["count"]:
        left[:] = [each for each in left if each is not pool]


def total(pools: list[Any]) -> int:
    return sum(pool["count"] for pool in pools)


def has_all(properties: Any, wanted: Any) -> bool:
    for key, value in wanted.items():
        if key in ("resource_class", "traits", "rp_uuids"):
            continue
        found = properties.get(key)
        if isinstance(found, str) and isinstance(value, str):
            found, value = found.lower(), value.lower()
        if found != value:
            return False
    return True


def near_enough(pools: list[Any], request: Any, cells: set[int], sockets: Any) -> list[Any]:
    policy = request.numa_policy or "legacy"
    near = [pool for pool in pools if pool["has"]["numa_node"] in cells]
    if policy == "required" or total(near) >= request.count:
        return near
    if policy == "socket":
        if None in sockets.values():
            return []
        nodes = [node for node in sockets if any(sockets[node] == sockets[cell] for cell in cells)]
        return [pool for pool in pools if pool["has"]["numa_node"] in nodes]
    or_unknown = [pool for pool in pools if pool["has"]["numa_node"] in cells or pool["has"]["numa_node"] is None]
    if policy == "legacy" or total(or_unknown) >= request.count:
        return or_unknown
    return or_unknown + [pool for pool in pools if pool not in or_unknown]


def providers_of(request: Any, mappings: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    if request.request_id and not request.is_from_port:
        for group, providers in mappings.items():
            if group.startswith(request.request_id):
                found[providers[0]] = found.get(providers[0], 0) + 1
    return found
