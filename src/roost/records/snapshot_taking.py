# SPDX-License-Identifier: Apache-2.0
"""Takes a snapshot of a cloud of Roost's own: fleet, options and servers as one transaction sees them."""

from __future__ import annotations

from sqlalchemy import Engine

from roost.options.files import Sections
from roost.records.decisions import read_latest_options
from roost.records.fleet_export import read_fleet_document
from roost.records.server_views import describe_fully, read_server_records
from roost.sources.documents import gc_paused
from roost.sources.snapshot import Snapshot
from roost.store.store_clock import StoreClock
from roost.store.transactions import reading


def take_snapshot(engine: Engine, times: StoreClock, configured: Sections) -> Snapshot:
    """The cloud in this database at this moment.

    `configured`: the options by which a scheduler decides, where none has recorded those that it has.
    """
    with gc_paused():
        with reading(engine) as connection:
            now = times.read(connection)
            fleet, options = read_fleet_document(connection, now), read_latest_options(connection) or configured
            found = read_server_records(connection)
        servers = [
            describe_fully(each, found.faults.get(each.uuid), found.migrations.get(each.uuid, ()))
            for each in found.servers
        ]
        return Snapshot(now, options, fleet, servers, source="the live cloud")
