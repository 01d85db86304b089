# SPDX-License-Identifier: Apache-2.0
"""Snapshots of the cloud, for admins: fleet, options and servers as one transaction sees them."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping

from sqlalchemy import Connection, Engine

from roost.clock import Clock
from roost.conductor.parts import Record
from roost.config.files import Sections
from roost.errors import BadInput
from roost.fleet.gc_pause import gc_paused
from roost.inventory import read_fleet_document
from roost.rpc.context import RequestContext
from roost.rpc.interface import Method
from roost.servers import read_server_records
from roost.servers.descriptions import describe_fully
from roost.snapshot import Snapshot
from roost.store.store_clock import StoreClock
from roost.store.transactions import reading

ReadOptions = Callable[[Connection], Sections]
"""Reads the options by which schedulers decide."""


class Snapshots:
    """Answers `get_snapshot`."""

    def __init__(self, engine: Engine, clock: Clock, read_options: ReadOptions) -> None:
        self._engine, self._times, self._read_options = engine, StoreClock(engine, clock), read_options
        self.methods: Mapping[str, Method] = {"get_snapshot": self.get_snapshot}

    def get_snapshot(self, context: RequestContext) -> Record:
        """The content of a snapshot file, as base64: {"snapshot": text}."""
        if not context.is_admin:
            raise BadInput("only an admin may take a snapshot", "ask as an admin")
        with gc_paused():
            return {"snapshot": b64encode(self._take().to_bytes()).decode()}

    def _take(self) -> Snapshot:
        with reading(self._engine) as connection:
            now = self._times.read(connection)
            fleet, options = read_fleet_document(connection, now), self._read_options(connection)
            found = read_server_records(connection)
        servers = [
            describe_fully(each, found.faults.get(each.uuid), found.migrations.get(each.uuid, ()))
            for each in found.servers
        ]
        return Snapshot(now, options, fleet, servers)
