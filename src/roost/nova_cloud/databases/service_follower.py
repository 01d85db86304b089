# SPDX-License-Identifier: Apache-2.0
"""Follows the nova-compute rows of the table `services` of a cell: flags that operators set, and heartbeats.

Few services are disabled or forced down, so all of these are read each time: a change of a flag is seen at once,
without a watermark. Heartbeats, a row per host every ten seconds, are read from a watermark on.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, or_, select

from roost.model import Service
from roost.nova_cloud.databases.cell_changes import CellChanges, ComputeService, as_utc
from roost.nova_cloud.databases.tables import services
from roost.nova_cloud.databases.watermark import SINCE, Watermark

BINARY = "nova-compute"
_IN_SERVICE = Service()
_IS_COMPUTE = services.c.binary == BINARY
_SELECT = select(services).where(_IS_COMPUTE).order_by(services.c.id)
_IS_LIVE = services.c.deleted == 0
_IS_OUT_OF_SERVICE = and_(_IS_LIVE, or_(services.c.disabled, services.c.forced_down))
_IS_FLAGGED = or_(_IS_OUT_OF_SERVICE, services.c.created_at >= SINCE, services.c.deleted_at >= SINCE)
_ALL_SERVICES = _SELECT.where(_IS_LIVE)
_FLAGGED_SERVICES = _SELECT.where(_IS_FLAGGED)
_WRITTEN_SERVICES = _SELECT.where(or_(_IS_FLAGGED, services.c.updated_at >= SINCE))


class ServiceFollower:
    """Known services by host."""

    def __init__(self) -> None:
        self._known: dict[str, ComputeService] = {}
        self._watermark = Watermark()

    def fetch(self, connection: Connection, is_full: bool, heartbeats: bool) -> Sequence[Any]:
        """All live rows; or those that are out of service, new or deleted and, with `heartbeats`, those updated."""
        if is_full:
            return connection.execute(_ALL_SERVICES).all()
        statement = _WRITTEN_SERVICES if heartbeats else _FLAGGED_SERVICES
        return connection.execute(statement, {SINCE.key: self._watermark.since}).all()

    def apply(
        self, rows: Sequence[Any], is_full: bool, heartbeats: bool, read_at: datetime, changes: CellChanges
    ) -> None:
        """Take note of rows from `fetch`, and put what they change into `changes`."""
        live = {row.host: row for row in rows if not row.deleted and row.host}
        for row in rows:
            known = self._known.get(row.host)
            if row.deleted and known and known.id == row.id and row.host not in live:
                self._forget(row.host, changes)
        for host, row in live.items():
            self._put(host, _service(row), changes)
        for host in self._known.keys() - live.keys():
            if is_full:
                self._forget(host, changes)
            elif (known := self._known[host]).service.disabled or known.service.forced_down:
                self._put(host, known._replace(service=_IN_SERVICE), changes)
        if is_full or heartbeats:
            times = (moment for row in rows for moment in (row.updated_at, row.created_at, row.deleted_at))
            self._watermark.advance(read_at, times)

    def _put(self, host: str, service: ComputeService, changes: CellChanges) -> None:
        before, self._known[host] = self._known.get(host), service
        if before is None or _without_heartbeat(before) != _without_heartbeat(service):
            changes.services[host] = service
        if service.last_seen is not None and (before is None or before.last_seen != service.last_seen):
            changes.heartbeats[host] = service.last_seen

    def _forget(self, host: str, changes: CellChanges) -> None:
        del self._known[host]
        changes.removed_services.add(host)


def _without_heartbeat(service: ComputeService) -> ComputeService:
    return service._replace(last_seen=None, report_count=0)


def _service(row: Any) -> ComputeService:
    flags = bool(row.disabled), row.disabled_reason, bool(row.forced_down)
    return ComputeService(
        row.id,
        row.host,
        _IN_SERVICE if flags == (False, None, False) else Service(*flags),
        as_utc(row.last_seen_up or row.created_at),
        row.report_count or 0,
        row.version or 0,
        row.uuid,
    )
