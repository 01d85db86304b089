# SPDX-License-Identifier: Apache-2.0
"""Which pools of a host may serve one PCI request: properties, NUMA policy, device type, provider.

A request is matched in steps (`matching_steps`), each of which drops the pools that it rules out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from roost.hosts.pci import Pool, free_devices
from roost.model.pci import PciRequest, Property, is_true_property, without_case


class GuestPlacement(NamedTuple):
    """Where on the host the instance is placed; a field is None if it is not known."""

    cells: frozenset[int] | None
    """NUMA nodes of the host on which the instance is placed."""
    sockets: Mapping[int, int | None] | None
    """NUMA node -> socket, for all nodes of the host; a socket is None if it is not known."""
    mappings: Mapping[str, Sequence[str]] | None
    """Request group -> resource providers, of the allocation candidate."""


def matches(pool: Pool, request: PciRequest) -> bool:
    """Whether the devices have every property of one of the request's alternatives."""
    has = pool.comparable
    for alternative in request.alternatives:
        for key, wanted in alternative:
            if has.get(key) != wanted and not _has_all(has.get(key), wanted):
                break
        else:
            return True
    return False


def _has_all(found: Property, wanted: Property) -> bool:
    return isinstance(found, tuple) and isinstance(wanted, tuple) and set(wanted) <= set(found)


def providers_for(request: PciRequest, mappings: Mapping[str, Sequence[str]] | None) -> Mapping[str, int]:
    """Provider -> number of devices that the allocation candidate takes from it; empty if it names no provider."""
    if not mappings or not request.request_id or request.is_from_port:
        return {}
    groups = [found for name, found in mappings.items() if name.startswith(request.request_id)]
    return Counter(found[0] for found in groups if found)


def usable_pools(pools: Sequence[Pool], request: PciRequest, placement: GuestPlacement) -> list[Pool]:
    """The pools that may serve the request, best first; empty if they have too few devices."""
    *_, (_, usable) = matching_steps(pools, request, placement)
    if free_devices(usable) < request.count or missing_providers(usable, request, placement):
        return []
    return usable


def matching_steps(
    pools: Sequence[Pool], request: PciRequest, placement: GuestPlacement
) -> Iterator[tuple[str, list[Pool]]]:
    """The pools left after each step, in order, and a phrase that describes the devices which the step dropped.

    NUMA affinity is checked for enough devices before the later steps drop some, as nova does. `live_migratable`
    needs no step: a pool without that tag has failed the property match.
    """
    left = [pool for pool in pools if matches(pool, request)]
    yield "for the instance's other requests", left
    if placement.cells is not None:
        left = _pools_by_affinity(left, request, placement.cells, placement.sockets)
        yield "too far from the instance's NUMA nodes", left
    for device_type in request.excluded_device_types:
        unasked = without_case(device_type)
        left = [pool for pool in left if pool.comparable.get("dev_type") != unasked]
        yield device_type, left
    if not request.wants_remote_managed:
        left = [pool for pool in left if not is_true_property(pool.comparable.get("remote_managed"))]
        yield "remote-managed", left
    if providers := providers_for(request, placement.mappings):
        left = [pool for pool in left if 0 < providers.get(pool.get("rp_uuid"), 0) <= pool.count]
        yield "with other providers", left


def _pools_by_affinity(
    pools: list[Pool], request: PciRequest, cells: frozenset[int], sockets: Mapping[int, int | None] | None
) -> list[Pool]:
    """The pools that the request's NUMA policy allows, nearest first."""
    near = [pool for pool in pools if pool.numa_node in cells]
    if request.policy == "required" or free_devices(near) >= request.count:
        return near
    if request.policy == "socket":
        return _pools_on_sockets(pools, cells, sockets or {})
    usable = [pool for pool in pools if pool.numa_node is None or pool.numa_node in cells]
    if request.policy == "legacy" or free_devices(usable) >= request.count:
        return usable
    return usable + [pool for pool in pools if pool.numa_node is not None and pool.numa_node not in cells]


def _pools_on_sockets(pools: list[Pool], cells: frozenset[int], sockets: Mapping[int, int | None]) -> list[Pool]:
    if None in sockets.values():  # the nodes of a socket are not certain
        return []
    wanted = {sockets[cell] for cell in cells if cell in sockets}
    nodes = {node for node, socket in sockets.items() if socket in wanted}
    return [pool for pool in pools if pool.numa_node in nodes]


def missing_providers(usable: Iterable[Pool], request: PciRequest, placement: GuestPlacement) -> list[str]:
    """The providers that the allocation candidate names for the request and no usable pool belongs to."""
    providers = providers_for(request, placement.mappings)
    if not providers:
        return []
    found = {pool.get("rp_uuid") for pool in usable}
    return [provider for provider in providers if provider not in found]


def choose_devices(usable: Sequence[Pool], request: PciRequest, placement: GuestPlacement) -> list[Pool]:
    """The devices that the request gets, as pools with counts.

    They are taken per provider as the allocation candidate says; if it names none, from the pools in order.
    """
    if providers := providers_for(request, placement.mappings):
        first = {pool.get("rp_uuid"): pool for pool in reversed(usable)}
        return [first[provider].with_count(count) for provider, count in providers.items()]
    chosen: list[Pool] = []
    missing = request.count
    for pool in usable:
        if count := min(missing, pool.count):
            chosen.append(pool.with_count(count))
            missing -= count
    return chosen
