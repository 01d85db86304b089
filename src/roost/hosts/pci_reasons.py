# SPDX-License-Identifier: Apache-2.0
"""Why the pools of a host cannot serve a PCI request, as one sentence with the numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from roost.hosts.pci import Pool, free_devices
from roost.hosts.pci_matching import GuestPlacement, matches, matching_steps, missing_providers, providers_for
from roost.model.pci import PLACEMENT_KEYS, PciRequest, Property


def request_reason(
    pools: Sequence[Pool], left: Sequence[Pool], request: PciRequest, placement: GuestPlacement
) -> str:
    """Why a request cannot be served. `pools`: all of the host; `left`: without devices of earlier requests."""
    steps = list(matching_steps(left, request, placement))
    free = free_devices(pool for pool in pools if matches(pool, request))
    if placement.cells and (
        sentence := _wrong_nodes_reason(steps[0][1], steps[1][1], request, placement.cells, placement.sockets)
    ):
        return sentence
    asked = f"{request.count} {'device' if request.count == 1 else 'devices'} {_describe(request)} asked"
    if free_devices(steps[0][1]) >= request.count and (
        missing := missing_providers(steps[-1][1], request, placement)
    ):
        wanted = providers_for(request, placement.mappings)[missing[0]]
        has = max((pool.count for pool in steps[-2][1] if pool.get("rp_uuid") == missing[0]), default=0)
        return f"{asked}, {wanted} of them from provider {missing[0]}, whose pool has {has}"
    losses = _losses(free, steps)
    return f"{asked}; {free} free" + (f", less {_join_words(losses)}" if losses else "")


def _losses(free: int, steps: Iterable[tuple[str, list[Pool]]]) -> list[str]:
    """For each step that dropped devices, their number and what they are: `3 type-PF`."""
    losses = []
    for words, left in steps:
        now = free_devices(left)
        if now < free:
            losses.append(f"{free - now} {words}")
        free = now
    return losses


def _wrong_nodes_reason(
    before: Sequence[Pool],
    after: Sequence[Pool],
    request: PciRequest,
    cells: frozenset[int],
    sockets: Mapping[int, int | None] | None,
) -> str:
    """The sentence for enough free devices that are all on the wrong NUMA nodes; empty if that is not the case.

    `before` and `after`: the pools before and after the NUMA policy was applied.
    """
    if free_devices(after) or free_devices(before) < max(1, request.count):
        return ""
    needed = f"the socket of {_list_nodes(cells)}" if request.policy == "socket" else _list_nodes(cells)
    if request.policy == "socket" and (not sockets or None in sockets.values()):
        return f"the request needs {_describe(request)} devices on {needed}; which socket a node is on is not known"
    return f"free {_describe(request)} devices are on {_list_locations(before)}; the request needs {needed}"


def _list_locations(pools: Iterable[Pool]) -> str:
    seen = {pool.numa_node for pool in pools if pool.count}
    known = [node for node in seen if node is not None]
    unknown = ["no known NUMA node"] if None in seen else []
    return _join_words([f"NUMA {_list_nodes(known)}", *unknown] if known else unknown)


def _list_nodes(cells: Iterable[int]) -> str:
    ordered = sorted(cells)
    return f"{'node' if len(ordered) == 1 else 'nodes'} {_join_words([str(each) for each in ordered])}"


def _join_words(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _describe(request: PciRequest) -> str:
    """The devices asked for: `10de:1eb8 type-VF`; the alias if an alternative names neither ids nor properties."""
    names = dict.fromkeys(_describe_alternative(dict(each)) for each in request.spec)
    if not all(names):
        return request.alias_name or "*:*"
    return " or ".join(names) or "of no kind"


def _describe_alternative(wanted: dict[str, Property]) -> str:
    vendor, product = wanted.pop("vendor_id", None), wanted.pop("product_id", None)
    words = [f"{vendor or '*'}:{product or '*'}"] if vendor or product else []
    if device_type := wanted.pop("dev_type", None):
        words.append(str(device_type))
    words += [f"{key}={value}" for key, value in wanted.items() if key not in PLACEMENT_KEYS]
    return " ".join(words)
