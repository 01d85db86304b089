# SPDX-License-Identifier: Apache-2.0
"""NUMA cells and PCI devices: where what a node reports and what the ledger has booked meet.

The rule, for a report of an agent and for a host of a fleet file:

1. The base is what was reported, without the bookings of the instances that the report lists: its figures count them.
2. What is left is the base, less all bookings of the ledger: those of listed instances and of those that the report
   does not know yet.

So a claim that was made while a report was under way is not lost, one that the report counts is not counted twice,
and where a node reports fewer devices than are booked, none is free until enough of them are released. On the source
of a move the migration's booking counts as that of the listed instance. A booking that was claimed after the report
was made is not in its figures, even if the report lists the instance: it had an earlier booking there. While an
instance is resized on its host, both have a booking there, and a report does not say whether its figures count the
old size, the new one, or both: then only what the two have in common is taken off, so that nothing is given out that
is in use; and the pinned CPUs of both, which no other guest has. A fleet file that lists the migration too says that
its figures count both.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import reduce

from roost.hosts.guests import GuestSpace, SpaceTexts, common_part, guest_from_text, space_texts
from roost.store.statements import Row


def space_columns(
    reported: Row,
    booked: Mapping[str, str],
    listed: Collection[str],
    *,
    migrations: Collection[str] = (),
    too_young: Collection[str] = (),
) -> Row:
    """The columns of a node's row that say what is left, and what was without the ledger's bookings.

    `reported`: the row with `numa_topology` and `pci_stats` as reported. `booked`: consumer uuid -> text of the
    column `guest`, of all consumers on the node. `listed`, `migrations`: uuids of the instances, and of their
    migrations, that the report lists. `too_young`: consumers whose bookings were claimed after the report was made.
    """
    texts = SpaceTexts(reported["numa_topology"], reported["pci_stats"])
    if not booked:
        return _columns(texts, texts)
    guests = {uuid: guest_from_text(text) for uuid, text in booked.items()}
    base: GuestSpace = texts.decode()
    for uuid in guests.keys() & set(migrations):
        base = base.without_guest(guests[uuid])
    counted = {holder: guest for holder, guest in guests.items() if holder not in {*migrations, *too_young}}
    for uuid in listed:
        own = [guest for holder, guest in counted.items() if uuid in (holder, guest.instance_uuid)]
        if own:
            base = base.without_guest(reduce(common_part, own))
    return _columns(space_texts(base.with_guests(guests.values())), space_texts(base))


def unchanged_space(
    reported: Row, stored: Row, booked: Mapping[str, str], listed: Collection[str], migrations: Collection[str]
) -> Row | None:
    """The stored columns, if the report counts every booking and leaves just what is stored; else None.

    `stored`: the node's row. What is left does not say how much a node has of which more is booked than it has: an
    export that is imported again must not change that.
    """
    known = {*listed, *migrations}
    if any(uuid not in known and guest_from_text(text).instance_uuid not in known for uuid, text in booked.items()):
        return None
    left, before = (SpaceTexts(row["numa_topology"], row["pci_stats"]) for row in (reported, stored))
    if left != before and left.decode() != before.decode():
        return None
    return _columns(before, SpaceTexts(stored["base_numa_topology"], stored["base_pci_stats"]))


def _columns(left: SpaceTexts, base: SpaceTexts) -> Row:
    return {
        "numa_topology": left.numa,
        "pci_stats": left.pools,
        "base_numa_topology": base.numa,
        "base_pci_stats": base.pools,
    }
