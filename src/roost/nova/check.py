# SPDX-License-Identifier: Apache-2.0
"""Tries, without writing, all that a scheduler in a nova cloud needs, and returns the rows of `roost cloud check`.

Start reading at `check_cloud`: it runs a survey of each connection, in parallel (those of databases and broker are in
`surveys.py`, that of placement is here), and then compares what they found, a function for each row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import NamedTuple

from roost.clock import Clock
from roost.errors import DatabaseAddressError, OptionError, PlacementError, PlacementRefused
from roost.nova.databases.api import Cell, CellAddresses
from roost.nova.databases.engines import parse_nova_url
from roost.nova.placement.client import MICROVERSION, PlacementClient, describe_placement, make_adapter
from roost.nova.surveys import (
    API,
    COMPUTE,
    FAILED,
    OFF,
    OK,
    SCHEDULER,
    WARNING,
    ApiSurvey,
    CellSurvey,
    ProbeResult,
    ServiceRow,
    failure,
    listed,
    probe_broker,
    probe_plugins,
    probe_writes,
    survey_api_database,
    survey_cell,
)
from roost.options.settings import Settings
from roost.scheduler.options import (
    API_DATABASE,
    ApiDatabaseOptions,
    CellDatabaseOptions,
    SchedulerOptions,
    ShadowOptions,
)
from roost.store.options import DatabaseOptions

WHERE = "placement"
CONNECT_SECONDS, READ_SECONDS = 5.0, 15.0
_UNAVAILABLE = "is it running, and is its address in [placement], or in keystone's catalogue, right?"


@dataclass
class PlacementSurvey:
    """What was found in placement."""

    results: list[ProbeResult] = field(default_factory=list)
    providers: frozenset[str] | None = None
    """Uuids of all providers; None if they cannot be read."""


def survey_placement(files: Sequence[Path]) -> PlacementSurvey:
    """Try placement with [placement] of these config files."""
    found = PlacementSurvey()
    try:
        adapter = make_adapter(files)
    except OptionError as error:
        found.results.append(failure(WHERE, "options", error))
        return found
    adapter.session.timeout = READ_SECONDS  # for keystone
    client = PlacementClient(adapter, threads=1, connect_seconds=CONNECT_SECONDS, read_seconds=READ_SECONDS)
    try:
        address = describe_placement(files)
        found.results.append(_version_result(client, address.get("endpoint") or address.get("auth_url", "")))
        if not found.results[-1].is_in_the_way:
            _read_providers(client, found)
    finally:
        client.close()
    return found


def _version_result(client: PlacementClient, address: str) -> ProbeResult:
    """Placement's root page names its versions; it needs an endpoint, and no token of placement's own."""
    try:
        answer = client.get("/")
    except PlacementRefused as error:  # by keystone: placement answers here without a token
        return _refusal(error)
    except PlacementError as error:
        return ProbeResult(WHERE, "endpoint", FAILED, error.message, error.hint or _UNAVAILABLE)
    try:
        version = answer["versions"][0]
        least, most = version["min_version"], version["max_version"]
        is_known = _number(least) <= _number(MICROVERSION) <= _number(most)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        return ProbeResult(WHERE, "endpoint", FAILED, f"{address}: that is not placement", "correct the endpoint")
    if not is_known:
        text = f"{address} has versions {least} to {most}; {MICROVERSION} is needed"
        return ProbeResult(WHERE, "version", FAILED, text, "upgrade placement")
    return ProbeResult(WHERE, "endpoint", OK, f"{address}, version {MICROVERSION} of {least} to {most}")


def _number(version: str) -> tuple[int, int]:
    major, _, minor = version.partition(".")
    return int(major), int(minor)


def _read_providers(client: PlacementClient, found: PlacementSurvey) -> None:
    try:
        answer = client.get("/resource_providers")
        uuids = frozenset(each["uuid"] for each in answer["resource_providers"])
    except PlacementRefused as error:
        found.results.append(_refusal(error))
    except PlacementError as error:
        found.results.append(failure(WHERE, "providers", error))
    except (KeyError, TypeError):
        text = "the answer has no list of providers"
        found.results.append(ProbeResult(WHERE, "providers", FAILED, text, "is it placement that answers there?"))
    else:
        found.providers = uuids
        found.results.append(ProbeResult(WHERE, "providers", OK, f"the token is accepted; {len(uuids)} providers"))


def _refusal(error: PlacementRefused) -> ProbeResult:
    remedy = f"{error.hint}; its user needs the roles that nova's own user has"
    return ProbeResult(WHERE, "token", FAILED, error.message, remedy)


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

THREADS = 8
"""Connections that are tried at the same time: one that does not answer holds up few others."""


def check_cloud(settings: Settings, files: Sequence[Path], clock: Clock) -> list[ProbeResult]:
    """Try each connection and each right, read-only; one that fails does not hide the others.

    `files`: config files, from which keystoneauth and oslo.messaging read their own options.
    """
    with ThreadPoolExecutor(THREADS) as pool:
        placement, api_database = pool.submit(survey_placement, files), pool.submit(_survey_api, settings)
        # Not in the pool: a thread that imports oslo.messaging never ends.
        broker, plugins = probe_broker(settings, files), probe_plugins(settings, files)
        api = api_database.result()
        cells = list(pool.map(partial(_survey_cell, settings), api.cells or ()))
        writes = list(probe_writes(settings, api.cells or ()))
    seconds_until_down = settings.fill(SchedulerOptions).seconds_until_down
    surveys = Surveys(api, cells, placement.result(), clock.now(), seconds_until_down)
    compared = (compare(surveys) for compare in COMPARISONS)
    return [
        *api.results,
        *(result for cell in cells for result in cell.results),
        *surveys.placement.results,
        broker,
        plugins,
        *writes,
        *(result for result in compared if result),
    ]


def _survey_api(settings: Settings) -> ApiSurvey:
    addresses = CellAddresses(settings.fill(DatabaseOptions).connection, settings.fill(CellDatabaseOptions))
    try:
        url = parse_nova_url(settings.fill(ApiDatabaseOptions).connection, API_DATABASE)
    except DatabaseAddressError as error:
        found = ApiSurvey([failure(API, "connection", error)])
    else:
        found = survey_api_database(url, addresses, settings.fill(ShadowOptions).shadow)
    if found.cells is None:
        found.results.append(ProbeResult("cells", "connection", OFF, "not tried: the cell mappings cannot be read"))
    return found


def _survey_cell(settings: Settings, cell: Cell) -> CellSurvey:
    has_own_user = settings.fill(CellDatabaseOptions).cell_database_user
    option = "[roost] cell_database_user and cell_database_password" if has_own_user else cell.option
    return survey_cell(cell, option)
