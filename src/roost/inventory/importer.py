# SPDX-License-Identifier: Apache-2.0
"""Imports a fleet into the database, in one transaction; only differences are written.

| in the file | in the database |
| --- | --- |
| a new host | inserted with its service, traits, inventories and instances |
| a stored host, matched by (host, node) | updated where it differs |
| an instance | allocated on the nodes that the file has it on, and on no other node of the file |
| an instance without resources on any node | keeps its allocations; what the file reports counts it |
| a migration | allocated likewise; its use is part of what the file reports |
| not in the file: a consumer on a node of the file, from a claim | stays; its use is added to what the file reports |
| not in the file: a host, flavor, image, group or aggregate | stays unchanged |
| options | not stored: they belong into a configuration file |
"""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Engine

from roost.errors import BadInput
from roost.hosts.instances import flavors_by_key
from roost.inventory.aggregates import (
    aggregate_changes,
    check_aggregate_hosts,
    gather_aggregates,
    save_aggregates,
)
from roost.inventory.catalogue import save_flavors, save_groups, save_images
from roost.inventory.host_import import HostImport
from roost.inventory.import_summary import ImportSummary
from roost.inventory.node_writer import read_node_keys
from roost.inventory.row_encoder import HostEntry, entries_of
from roost.inventory.services import save_services
from roost.model import Service
from roost.sources.documents import gc_paused
from roost.sources.fleet_file import Fleet
from roost.store.change_log import record_changes
from roost.store.statements import in_chunks
from roost.store.store_clock import PresentTime, read_time
from roost.store.transactions import writing

HOSTS_PER_CHUNK = 1000
"""Hosts that are locked, compared and written by one round of statements."""
OPTIONS_NOTE = "the options of the file are not stored: put them into a configuration file"


def import_fleet(
    engine: Engine,
    fleet: Fleet,
    now: PresentTime,
    progress: Callable[[int], None] | None = None,
    is_dry_run: bool = False,
) -> ImportSummary:
    """Import the fleet: what was new and changed. A dry run executes everything and rolls it back.

    The fleet must have been loaded with its records (`Fleet.load(..., keeps_records=True)`). `progress` is called
    with the number of hosts saved since its last call.
    """
    if len(fleet.table) and not fleet.runs:
        raise ValueError("the fleet has no records: load it with keeps_records=True")
    entries = entries_of(fleet.runs)
    services = _services_of(entries)
    wanted_aggregates = gather_aggregates(fleet.table.known_aggregates, fleet.runs)
    with writing(engine, is_dry_run) as connection:
        now = read_time(now, connection)
        groups = save_groups(connection, fleet.server_groups, now)
        flavors = save_flavors(connection, fleet.flavors, now)
        images = save_images(connection, fleet.images, now)
        known = read_node_keys(connection)
        check_aggregate_hosts(wanted_aggregates, services.keys(), dict.fromkeys(host for host, _ in known))
        names = {id(each): name for name, each in fleet.flavors.items()}
        flavor_ids = {key: flavors.ids[names[id(each)]] for key, each in flavors_by_key(fleet.flavors).items()}
        hosts = HostImport(connection, entries, known, flavor_ids, now)
        for chunk in in_chunks(hosts.entries_in_lock_order(), HOSTS_PER_CHUNK):
            with gc_paused():  # tens of thousands of rows without reference cycles
                hosts.save(chunk)
            if progress:
                progress(len(chunk))
        service_changes = save_services(connection, services, now)
        aggregates = save_aggregates(connection, wanted_aggregates, now, services.keys())
        record_changes(connection, [*hosts.changes, *service_changes, *aggregate_changes(aggregates)])
    hosts.mark_changed(change.key for change in service_changes)
    left_alone = len(known.keys() - {entry.names for entry in entries})
    sections = (aggregates.counts, flavors.counts, images.counts, groups.counts)
    return ImportSummary(hosts.counts, *sections, left_alone, (OPTIONS_NOTE,) if fleet.options else ())


def _services_of(entries: list[HostEntry]) -> dict[str, Service]:
    """Host -> its service. BadInput if the nodes of a host describe it differently."""
    found: dict[str, Service] = {}
    for entry in entries:
        service = entry.record.service
        if found.setdefault(entry.host, service) != service:
            problem = f"host {entry.host}: its nodes say different things of its service"
            raise BadInput(problem, "a host has one service: give all of its nodes the same")
    return found
