# SPDX-License-Identifier: Apache-2.0
"""A `CloudClient` over a snapshot: it answers what can be read, and refuses to change anything."""

from __future__ import annotations

import dataclasses
from base64 import b64encode
from collections.abc import Mapping
from datetime import timedelta
from functools import cached_property
from typing import Any, NoReturn

from roost.client.interface import CloudClient, Record
from roost.errors import BadInput, FieldError, UnknownName, nearest
from roost.hosts import HostRecord
from roost.hosts.record import describe_host
from roost.model.descriptions import describe_flavor, describe_image
from roost.scheduler.all_options import read_options
from roost.scheduler.options import SchedulerOptions
from roost.sources.snapshot import Snapshot

_FILTERS = ("host", "project_id", "status", "name")
_PLACES = ("source_compute", "dest_compute")


class SnapshotClient(CloudClient):
    """Reads from a snapshot what a conductor would answer at the moment when it was taken."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def get_snapshot(self) -> Record:
        """The snapshot itself."""
        return {"snapshot": b64encode(self._snapshot.to_bytes()).decode()}

    # --- servers ---

    def list_servers(self, filters: Mapping[str, str]) -> list[Record]:
        """The servers that match all filters: host, project_id, status, name."""
        for name in filters:
            if name not in _FILTERS:
                raise FieldError(f"filters.{name}", "is not known", nearest(name, _FILTERS))
        found = self._snapshot.servers
        return [_listed(each) for each in found if all(each.get(key) == value for key, value in filters.items())]

    def get_server(self, server: str) -> Record:
        """One server, by uuid or name; UnknownName where there is none, or the name is that of several."""
        found = [each for each in self._snapshot.servers if each["id"] == server]
        found = found or [each for each in self._snapshot.servers if each.get("name") == server]
        if len(found) > 1:
            raise UnknownName(f"several servers are named {server[:60]!r}", "give the uuid")
        if not found:
            raise UnknownName(f"there is no server {server[:60]!r}", "roost server list shows them")
        return found[0]

    def list_migrations(self, server: str | None = None, host: str | None = None) -> list[Record]:
        """Migrations of a server, from or to a host, or all."""
        servers = self._snapshot.servers if server is None else [self.get_server(server)]
        found = [each for record in servers for each in record.get("migrations") or ()]
        return [each for each in found if host is None or host in [each.get(name) for name in _PLACES]]

    # --- hosts, flavors and images ---

    def list_hosts(self) -> list[Record]:
        """All hosts, by name."""
        return self._hosts

    def get_host(self, host: str) -> Record:
        """One host, by its first node; UnknownName where there is none."""
        found = next((each for each in self._hosts if each["host"] == host), None)
        if found is None:
            known = [each["host"] for each in self._hosts]
            raise UnknownName(f"Compute host {host[:60]} could not be found.", nearest(host, known))
        return found

    def list_flavors(self) -> list[Record]:
        """All flavors."""
        return [describe_flavor(each) for each in self._snapshot.fleet.flavors.values()]

    def list_images(self) -> list[Record]:
        """All images."""
        return [describe_image(each) for each in self._snapshot.fleet.images.values()]

    @cached_property
    def _hosts(self) -> list[Record]:
        settings = read_options((), self._snapshot.fleet.options, self._snapshot.fleet.options)
        down = settings.fill(SchedulerOptions).seconds_until_down
        zone = settings.value("DEFAULT", "default_availability_zone")
        found = [self._describe(each, down, zone) for each in self._records()]
        return sorted(found, key=lambda each: (each["host"], each["node"]))

    def _records(self) -> list[HostRecord]:
        """A record of each host: those of equal hosts differ in their names alone."""
        runs = self._snapshot.fleet.runs
        return [dataclasses.replace(record, host=host, node=node) for record, pairs in runs for host, node in pairs]

    def _describe(self, record: HostRecord, seconds_until_down: float, default_zone: str) -> Record:
        age = record.service.seconds_since_seen
        seen_at = None if age is None else self._snapshot.taken_at - timedelta(seconds=age)
        return describe_host(
            record, seconds_until_down=seconds_until_down, default_zone=default_zone, seen_at=seen_at
        )

    def _have_none(self, *args: Any, **kwargs: Any) -> NoReturn:
        """BadInput: decisions are kept in the database alone."""
        raise BadInput(f"{self._snapshot.source}: a snapshot has no decisions", "ask the live cloud")

    list_decisions = get_decision = _have_none

    # --- decisions ---

    def _has_none(self, *args: Any, **kwargs: Any) -> NoReturn:
        """BadInput: decisions are not part of a snapshot."""
        raise BadInput(
            f"{self._snapshot.source}: a snapshot holds no decisions", "ask the live cloud: leave out --from"
        )

    list_decisions = get_decision = _has_none

    # --- changes ---

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        """BadInput: what was recorded cannot be changed."""
        problem = f"{self._snapshot.source}: a snapshot is a record of what was, and cannot be changed"
        raise BadInput(problem, "leave out --from: then it is the live cloud")

    create_servers = delete_server = start_server = stop_server = resize_server = confirm_resize = _refuse
    revert_resize = migrate_server_cold = live_migrate_server = evacuate_server = shelve_server = _refuse
    unshelve_server = rebuild_server = set_host = update_server = set_server_metadata = _refuse
    delete_server_metadata = reset_server_state = _refuse


def _listed(server: Record) -> Record:
    """A server as it is listed: without its migrations, and with its fault only while it is in ERROR."""
    is_faulty = server.get("status") == "ERROR"
    return {**server, "migrations": [], "fault": server.get("fault") if is_faulty else None}
