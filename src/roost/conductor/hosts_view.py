# SPDX-License-Identifier: Apache-2.0
"""Hosts as operators see them: whether they are up and enabled, what they have and what of it is used.

Also the catalogue that servers are created from: flavors and images.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from sqlalchemy import Engine

from roost.clock import Clock
from roost.conductor.options import ConductorSettings
from roost.conductor.parts import Record
from roost.errors import BadInput, FieldError, UnknownName, nearest
from roost.hosts import HostRecord
from roost.messages.context import RequestContext
from roost.messages.interface import Method
from roost.records.catalogue import read_flavors, read_images
from roost.records.node_reader import read_nodes
from roost.records.node_writer import find_node_ids
from roost.records.outages import read_heartbeat_rule
from roost.records.server_views import describe_flavor, describe_host, describe_image
from roost.records.services import read_last_heartbeats, set_service_flags
from roost.store.store_clock import StoreClock
from roost.store.transactions import database_errors


class HostsView:
    """Lists, shows and disables hosts; lists flavors and images."""

    def __init__(self, engine: Engine, clock: Clock, settings: ConductorSettings) -> None:
        self._engine, self._clock, self._settings = engine, clock, settings
        self._times = StoreClock(engine, clock)
        self.methods: Mapping[str, Method] = {
            "list_hosts": self.list_hosts,
            "get_host": self.get_host,
            "set_host": self.set_host,
            "list_flavors": self.list_flavors,
            "list_images": self.list_images,
        }

    def list_hosts(self, context: RequestContext) -> Record:
        """All hosts, by name: {"hosts": [...]}."""
        _check_admin(context)
        return {"hosts": self._read(None)}

    def get_host(self, context: RequestContext, host: str) -> Record:
        """One host, by its first node; UnknownName where there is none."""
        _check_admin(context)
        if not isinstance(host, str):
            raise FieldError("host", "is no name")
        found = self._read([host])
        if not found:
            known = [each["host"] for each in self._read(None)]
            raise UnknownName(f"Compute host {host[:60]} could not be found.", nearest(host, known))
        return found[0]

    def set_host(
        self,
        context: RequestContext,
        host: str,
        disabled: bool | None = None,
        reason: str | None = None,
        forced_down: bool | None = None,
        dry_run: bool = False,
    ) -> Record:
        """Set the flags of a host that are given: the host as it is then."""
        found = self.get_host(context, host)
        for field, value in (("disabled", disabled), ("forced_down", forced_down)):
            if value is not None and not isinstance(value, bool):
                raise FieldError(field, f"{str(value)[:60]!r} is neither true nor false")
        if reason is not None and not (isinstance(reason, str) and reason.isprintable() and len(reason) <= 255):
            raise FieldError("reason", "cannot be kept", "at most 255 printable characters")
        is_disabled = found["status"] == "disabled" if disabled is None else disabled
        if reason is not None and not is_disabled:
            raise BadInput(f"host {host}: a reason, and it is not disabled", "disable it, or leave out the reason")
        if dry_run:
            wanted = {"disabled": disabled, "reason": reason, "forced_down": forced_down}
            changes = ", ".join(f"{name}: {value}" for name, value in wanted.items() if value is not None)
            step = {"server": None, "name": found["host"], "action": "set host", "host": found["host"]}
            return {"plan": [step | {"summary": changes or "nothing changes"}]}
        set_service_flags(
            self._engine,
            found["host"],
            disabled=disabled,
            disabled_reason=reason,
            forced_down=forced_down,
            now=self._clock.now(),
        )
        return self.get_host(context, host)

    def _read(self, hosts: Collection[str] | None) -> list[Record]:
        down_after = self._settings.seconds_until_down
        with database_errors(self._engine), self._engine.connect() as connection:
            ids = None if hosts is None else find_node_ids(connection, hosts)
            if ids is not None and not ids:
                return []
            rule = read_heartbeat_rule(connection, self._times, down_after)
            nodes = [each.record for each in read_nodes(connection, ids, rule=rule)]
            seen = {each.host: each.seen_at for each in read_last_heartbeats(connection, hosts)}
        nodes.sort(key=lambda record: (record.host, record.nodename))
        return [self._describe(each, seen.get(each.host)) for each in nodes]

    def _describe(self, record: HostRecord, seen_at: datetime | None) -> Record:
        settings = self._settings
        return describe_host(
            record,
            seconds_until_down=settings.seconds_until_down,
            default_zone=settings.default_zone,
            seen_at=seen_at,
        )

    # --- catalogue ---------------------------------------------------------------------------------------

    def list_flavors(self, context: RequestContext) -> Record:
        """All flavors: {"flavors": [...]}."""
        return {"flavors": [describe_flavor(each) for each in read_flavors(self._engine)]}

    def list_images(self, context: RequestContext) -> Record:
        """All images: {"images": [...]}."""
        return {"images": [describe_image(each) for each in read_images(self._engine)]}


def _check_admin(context: RequestContext) -> None:
    if not context.is_admin:
        raise BadInput("only an admin may look at hosts", "ask as an admin")
