# SPDX-License-Identifier: Apache-2.0
"""Brings a fleet into the store: in one transaction, and only what differs from what is there.

| what the file says | what becomes of it |
| --- | --- |
| a host that is new | comes with its service, traits, inventories, instances |
| a host that is there, found by (host, node) | gets what the file says; what is equal is left alone |
| an instance | is on the nodes the file has it on, and not on others of the file any more |
| nothing of a consumer (a claim made since) | it stays; what it holds comes on top of what the file reports |
| nothing of a host, flavor, image, group, aggregate | left alone |
| options | not stored: they belong into a configuration file |
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from sqlalchemy import Engine

from roost.errors import BadInput
from roost.fleet.fleet import Fleet
from roost.fleet.gc_pause import gc_paused
from roost.inventory.aggregates import aggregate_changes, check_hosts, gather_aggregates, save_aggregates
from roost.inventory.catalogue import save_flavors, save_groups, save_images
from roost.inventory.host_import import HostImport
from roost.inventory.import_summary import ImportSummary
from roost.inventory.node_writer import read_node_keys
from roost.inventory.row_encoder import HostEntry, entries_of
from roost.inventory.services import save_services
from roost.model import Service
from roost.store.bulk import in_chunks
from roost.store.change_log import note_changes
from roost.store.transactions import writing

HOSTS_AT_ONCE = 1000
OPTIONS_NOTE = "the options of the file are not stored: put them into a configuration file"


def import_fleet(
    engine: Engine,
    fleet: Fleet,
    now: datetime,
    progress: Callable[[int], None] | None = None,
    is_dry_run: bool = False,
) -> ImportSummary:
    """Bring the fleet into the store; what was done. A dry run does the same and rolls it back.

    The fleet was loaded with its records (`Fleet.load(..., keeps_records=True)`). `progress` is called with
    the number of hosts that were saved since its last call.
    """
    if len(fleet.table) and not fleet.runs:
        raise ValueError("the fleet has no records: load it with keeps_records=True")
    entries = entries_of(fleet.runs)
    services = _services_of(entries)
    wanted_aggregates = gather_aggregates(fleet.table.known_aggregates, fleet.runs)
    with writing(engine, is_dry_run) as connection:
        groups = save_groups(connection, fleet.server_groups, now)
        flavors = save_flavors(connection, fleet.flavors, now)
        images = save_images(connection, fleet.images, now)
        known = read_node_keys(connection)
        check_hosts(wanted_aggregates, services.keys(), dict.fromkeys(host for host, _ in known))
        flavor_ids = {each.id: flavors.ids[name] for name, each in fleet.flavors.items() if each.id is not None}
        hosts = HostImport(connection, entries, known, flavor_ids, now)
        for chunk in in_chunks(hosts.in_order(), HOSTS_AT_ONCE):
            with gc_paused():  # rows by the ten thousand, and no garbage among them
                hosts.save(chunk)
            if progress:
                progress(len(chunk))
        service_changes = save_services(connection, services, now)
        aggregates = save_aggregates(connection, wanted_aggregates, now, services.keys())
        note_changes(connection, [*hosts.changes, *service_changes, *aggregate_changes(aggregates)])
    hosts.note_hosts(change.key for change in service_changes)
    left_alone = len(known.keys() - {entry.names for entry in entries})
    sections = (aggregates.counts, flavors.counts, images.counts, groups.counts)
    return ImportSummary(hosts.counts, *sections, left_alone, (OPTIONS_NOTE,) if fleet.options else ())


def _services_of(entries: list[HostEntry]) -> dict[str, Service]:
    """Host -> its service: one for all of its nodes."""
    found: dict[str, Service] = {}
    for entry in entries:
        service = entry.record.service
        if found.setdefault(entry.host, service) != service:
            problem = f"host {entry.host}: its nodes say different things of its service"
            raise BadInput(problem, "a host has one service: give all of its nodes the same")
    return found
