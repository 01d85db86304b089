# SPDX-License-Identifier: Apache-2.0
"""Runs all probes of a nova cloud, and returns the rows of `roost cloud check`."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from roost.clock import Clock
from roost.errors import DatabaseAddressError
from roost.nova_cloud.cloud_check.comparisons import COMPARISONS, Surveys
from roost.nova_cloud.cloud_check.configuration_probes import probe_broker, probe_plugins
from roost.nova_cloud.cloud_check.database_survey import API, ApiSurvey, CellSurvey, survey_api_database, survey_cell
from roost.nova_cloud.cloud_check.placement_survey import survey_placement
from roost.nova_cloud.cloud_check.probe_result import OFF, ProbeResult, failure
from roost.nova_cloud.cloud_check.write_probes import probe_writes
from roost.nova_cloud.databases.cells import Cell, CellAddresses
from roost.nova_cloud.databases.read_only_engine import parse_nova_url
from roost.options.settings import Settings
from roost.scheduler.cloud_options import API_DATABASE, ApiDatabaseOptions, CellDatabaseOptions, ShadowOptions
from roost.scheduler.options import SchedulerOptions
from roost.store.engine import DatabaseOptions

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
