# SPDX-License-Identifier: Apache-2.0
"""Pinned CPUs, NUMA memory and PCI devices of a locked node: what is left, and which consumer holds what.

The columns `numa_topology` and `pci_stats` of a node are what is left. They follow from `base_numa_topology` and
`base_pci_stats` (what the node has, less what others than the ledger's consumers use) and `guest_allocations`.
A claim subtracts from what is left. A release computes it again from the base: a node may have reported fewer devices
than are booked, and then a device that is released is not free.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import Executable, Text, select, text, type_coerce

from roost.hosts.guests import Guest, GuestSpace, SpaceTexts, guest_from_text, space_texts
from roost.store.schema import compute_nodes, guest_allocations
from roost.store.statements import Statement, is_key, key_parameter


class NodeGuests(NamedTuple):
    """The state of one node. Immutable: changes return another one."""

    space: GuestSpace
    """What is left for new guests."""
    base: GuestSpace
    """What is left without the guests of the ledger."""
    booked: Mapping[str, Guest] | None = None
    """Consumer uuid -> what it holds; None if it was not read, because nothing is released on the node."""

    def with_guest(self, consumer_uuid: str, guest: Guest) -> NodeGuests:
        """With a guest of this consumer added."""
        booked = None if self.booked is None else {**self.booked, consumer_uuid: guest}
        return self._replace(space=self.space.with_guest(guest), booked=booked)

    def without_guest(self, consumer_uuid: str) -> NodeGuests:
        """Without the guest of this consumer; `booked` must have been read."""
        booked = {uuid: guest for uuid, guest in (self.booked or {}).items() if uuid != consumer_uuid}
        return self._replace(space=self.base.with_guests(booked.values()), booked=booked)

    def with_owner(self, before: str, after: str) -> NodeGuests:
        """With the guest of one consumer transferred to another."""
        if self.booked is None:
            return self
        return self._replace(booked={after if uuid == before else uuid: each for uuid, each in self.booked.items()})


_UPDATE_SPACE = text("UPDATE compute_nodes SET numa_topology = :numa, pci_stats = :pools WHERE id = :id")


def update_space(node_id: int, space: GuestSpace) -> Statement:
    """The statement that sets what is left of a node for guests; the node must be locked."""
    return Statement(_UPDATE_SPACE, {"id": node_id, **space_texts(space)._asdict()})


# --- reading -----------------------------------------------------------------------------------------


def select_spaces(dialect: str, column: str, keys: Collection[Any]) -> Statement:
    """The statement that reads what is left of nodes, found by `id` or `uuid`; the nodes must be locked."""
    return Statement(_select_spaces(dialect, column, len(keys) == 1), {"keys": key_parameter(sorted(keys))})


@cache
def _select_spaces(dialect: str, column: str, is_one: bool) -> Executable:
    names = ("numa_topology", "pci_stats", "base_numa_topology", "base_pci_stats")
    fields = [type_coerce(compute_nodes.c[name], Text) for name in names]
    return select(compute_nodes.c.id, *fields).where(is_key(dialect, compute_nodes.c[column], "keys", is_one))


def select_guests(dialect: str, column: str, keys: Sequence[Any]) -> Statement:
    """The statement that reads guests, found by `node_id` or `consumer_uuid`: for `guests_from_rows`."""
    return Statement(_select_guests(dialect, column, len(keys) == 1), {"keys": key_parameter(keys)})


@cache
def _select_guests(dialect: str, column: str, is_one: bool) -> Executable:
    table = guest_allocations.c
    fields = table.consumer_uuid, table.node_id, type_coerce(table.guest, Text)
    return select(*fields).where(is_key(dialect, table[column], "keys", is_one))


def guests_from_rows(rows: Iterable[Any]) -> dict[tuple[str, int], Guest]:
    """Consumer uuid and node id -> guest, from the result of `select_guests`."""
    return {(uuid, node_id): guest_from_text(text) for uuid, node_id, text in rows}


def node_guests_from_rows(
    rows: Iterable[Any], booked: Mapping[tuple[str, int], Guest] | None = None
) -> dict[int, NodeGuests]:
    """Node id -> its state, from the result of `select_spaces`; `booked`: every guest of these nodes."""
    found: dict[int, NodeGuests] = {}
    for node_id, numa, pools, base_numa, base_pools in rows:
        space = SpaceTexts(numa, pools).decode()
        is_equal = (numa, pools) == (base_numa, base_pools)
        base = space if is_equal else SpaceTexts(base_numa, base_pools).decode()
        here = None if booked is None else {uuid: each for (uuid, at), each in booked.items() if at == node_id}
        found[node_id] = NodeGuests(space, base, here)
    return found
