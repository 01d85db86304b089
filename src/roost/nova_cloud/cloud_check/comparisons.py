# SPDX-License-Identifier: Apache-2.0
"""Compares what the connections of a cloud tell: a function for each row, which needs no connection any more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from roost.nova_cloud.cloud_check.database_survey import COMPUTE, SCHEDULER, ApiSurvey, CellSurvey, ServiceRow
from roost.nova_cloud.cloud_check.placement_survey import PlacementSurvey
from roost.nova_cloud.cloud_check.probe_result import OFF, OK, WARNING, ProbeResult, listed

COMPUTES, SCHEDULERS = "computes", "schedulers"
OLDEST_VERSION = 72
"""The oldest version of a nova-compute with which nova-scheduler 34 starts."""


class Surveys(NamedTuple):
    """What was found in all connections."""

    api: ApiSurvey
    cells: Sequence[CellSurvey]
    placement: PlacementSurvey
    now: datetime
    seconds_until_down: float
    """Age of a heartbeat from which on a service counts as down."""

    @property
    def read_cells(self) -> list[CellSurvey]:
        """Cells that a scheduler reads."""
        return [each for each in self.cells if not each.cell.is_cell0 and not each.cell.is_disabled]

    def services(self, cells: Iterable[CellSurvey], binary: str) -> Iterator[ServiceRow]:
        """The services with this binary in these cells, as far as they could be read."""
        return (row for cell in cells for row in cell.services or () if row.binary == binary)


def compare_host_mappings(surveys: Surveys) -> ProbeResult | None:
    """Hosts that are not mapped to the cell they are in, and so are never chosen."""
    mapped, cells = surveys.api.host_cells, [each for each in surveys.read_cells if each.nodes is not None]
    if mapped is None or not cells:
        return None
    pairs = {(host, each.cell.id) for each in cells for host in (each.nodes or {}).values()}
    if not pairs:
        return ProbeResult(COMPUTES, "host mappings", WARNING, "there is no compute host", "start nova-compute")
    unmapped = sorted({host for host, cell in pairs if mapped.get(host) != cell})
    if not unmapped:
        return ProbeResult(COMPUTES, "host mappings", OK, f"all {len(pairs)} hosts have one")
    text = f"{len(unmapped)} of {len(pairs)} hosts have none and are not chosen: {listed(unmapped)}"
    return ProbeResult(COMPUTES, "host mappings", WARNING, text, "run nova-manage cell_v2 discover_hosts")


def compare_providers(surveys: Surveys) -> ProbeResult | None:
    """Compute nodes of which placement has no provider, and which so are never chosen."""
    providers, cells = surveys.placement.providers, [each for each in surveys.read_cells if each.nodes]
    if providers is None or not cells:
        return None
    nodes = {uuid: host for each in cells for uuid, host in (each.nodes or {}).items()}
    lacking = [host for uuid, host in nodes.items() if uuid not in providers]
    if not lacking:
        return ProbeResult(COMPUTES, "providers", OK, f"all {len(nodes)} nodes have one")
    text = f"{len(lacking)} of {len(nodes)} nodes have none and are not chosen: {listed(lacking)}"
    remedy = "nova-compute makes it: look at its log, and whether [placement] names the placement of this cloud"
    return ProbeResult(COMPUTES, "providers", WARNING, text, remedy)


def compare_versions(surveys: Surveys) -> ProbeResult | None:
    """Computes that are older than nova-scheduler would accept."""
    rows = list(surveys.services(surveys.read_cells, COMPUTE))
    if not rows:
        return None
    old = [f"{row.host} ({row.version})" for row in rows if row.version < OLDEST_VERSION]
    if not old:
        versions = sorted({row.version for row in rows})
        return ProbeResult(COMPUTES, "versions", OK, ", ".join(map(str, versions)))
    text = f"{len(old)} of {len(rows)} services are older than {OLDEST_VERSION}: {listed(old)}"
    return ProbeResult(COMPUTES, "versions", WARNING, text, "upgrade them: nova-scheduler 34 would not start")


def find_schedulers(surveys: Surveys) -> ProbeResult | None:
    """Schedulers that have a fresh heartbeat; a record may be in any cell, cell0 included."""
    if not surveys.cells:
        return None
    oldest = surveys.now - timedelta(seconds=surveys.seconds_until_down)
    rows = surveys.services(surveys.cells, SCHEDULER)
    alive = sorted({row.host for row in rows if row.seen_at and row.seen_at >= oldest})
    unread = [each.cell.name for each in surveys.cells if each.services is None]
    unseen = f"; the services of {listed(unread)} cannot be read" if unread else ""
    if alive:
        remedy = "stop it when Roost takes over; both may run for a while"
        return ProbeResult(SCHEDULERS, SCHEDULER, WARNING, f"also running: {listed(alive)}{unseen}", remedy)
    if len(unread) == len(surveys.cells):
        return ProbeResult(SCHEDULERS, SCHEDULER, OFF, f"not known{unseen}")
    return ProbeResult(SCHEDULERS, SCHEDULER, OK, f"none is seen running{unseen}")


COMPARISONS: tuple[Callable[[Surveys], ProbeResult | None], ...] = (
    compare_host_mappings,
    compare_providers,
    compare_versions,
    find_schedulers,
)
"""Each gives a row, or None if what it compares could not be read."""
