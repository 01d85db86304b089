# SPDX-License-Identifier: Apache-2.0
"""Whether the free PCI devices of a host can serve all PCI requests of an instance, and which devices it gets.

Requests are served one after another from what the earlier ones left, so no two of them share a device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from roost.errors import RoostError
from roost.hosts.pci import Pool, Pools, remove_devices
from roost.hosts.pci_matching import GuestPlacement, choose_devices, usable_pools
from roost.hosts.pci_reasons import request_reason
from roost.model.pci import PciRequest


class PciUnavailable(RoostError):
    """The host's free devices cannot serve the PCI requests."""

    code = "roost.pci_unavailable"


def supports(
    pools: Sequence[Pool],
    requests: Sequence[PciRequest],
    *,
    cells: Sequence[int] | None = None,
    sockets: Mapping[int, int | None] | None = None,
    mappings: Mapping[str, Sequence[str]] | None = None,
) -> bool:
    """Whether the pools have the devices for all requests of an instance.

    `cells` are the NUMA nodes on which the instance is placed: without them no NUMA policy applies, not even
    `required`. `sockets` (NUMA node -> socket, for all nodes of the host) is for policy `socket`. `mappings` (request
    group -> providers) come from the allocation candidate.
    """
    placement = GuestPlacement(frozenset(cells) if cells else None, sockets, mappings)
    for request in requests:
        usable = usable_pools(pools, request, placement)
        if not usable:
            return False
        if len(requests) > 1:
            pools = remove_devices(pools, choose_devices(usable, request, placement))
    return True


def consume_devices(
    pools: Sequence[Pool],
    requests: Sequence[PciRequest],
    *,
    cells: Sequence[int] | None = None,
    sockets: Mapping[int, int | None] | None = None,
    mappings: Mapping[str, Sequence[str]] | None = None,
) -> tuple[Pools, Pools]:
    """The pools that are left, and the devices that the requests got, as pools with counts.

    Arguments are those of `supports`. PciUnavailable if a request cannot be served; its message is the reason.
    """
    placement = GuestPlacement(frozenset(cells) if cells else None, sockets, mappings)
    left, taken = tuple(pools), []
    for request in requests:
        usable = usable_pools(left, request, placement)
        if not usable:
            raise PciUnavailable(request_reason(pools, left, request, placement))
        devices = choose_devices(usable, request, placement)
        left = remove_devices(left, devices)
        taken += devices
    return left, tuple(taken)


def devices_reason(
    pools: Sequence[Pool],
    requests: Sequence[PciRequest],
    *,
    cells: Sequence[int] | None = None,
    sockets: Mapping[int, int | None] | None = None,
    mappings: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """One sentence on the first request that cannot be served; empty if all can. Arguments as for `supports`."""
    try:
        consume_devices(pools, requests, cells=cells, sockets=sockets, mappings=mappings)
    except PciUnavailable as error:
        return error.message
    return ""
