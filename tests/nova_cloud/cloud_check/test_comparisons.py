# SPDX-License-Identifier: Apache-2.0
"""Rows that compare what the databases and placement tell."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy.engine import make_url

from roost.nova.check import (
    COMPARISONS,
    PlacementSurvey,
    Surveys,
    compare_host_mappings,
    compare_providers,
    compare_versions,
    find_schedulers,
)
from roost.nova.databases.api import CELL0_UUID, Cell
from roost.nova.surveys import OFF, OK, WARNING, ApiSurvey, CellSurvey, ServiceRow

NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)
NODES = {"uuid-a": "a", "uuid-b": "b"}


def cell(number=2, nodes=NODES, services=(), uuid="c"):
    return CellSurvey(Cell(number, uuid, f"cell{number}", make_url("mysql://h/n")), nodes=nodes, services=services)


def surveys(*cells, mapped=None, providers=None):
    api = ApiSurvey(host_cells=mapped)
    return Surveys(api, cells, PlacementSurvey(providers=providers), NOON, 60)


def scheduler(host="s", age=10):
    return ServiceRow(host, "nova-scheduler", 74, NOON - timedelta(seconds=age))


def compute(host, version=74):
    return ServiceRow(host, "nova-compute", version, NOON)


def test_hosts_that_are_all_mapped():
    row = compare_host_mappings(surveys(cell(), mapped={"a": 2, "b": 2, "gone": 2}))
    assert (row.result, row.details) == (OK, "all 2 hosts have one")


def test_a_host_without_a_mapping_to_its_cell_is_named_with_the_remedy():
    row = compare_host_mappings(surveys(cell(), mapped={"a": 2, "b": 3}))
    assert (row.result, row.details) == (WARNING, "1 of 2 hosts have none and are not chosen: b")
    assert row.remedy == "run nova-manage cell_v2 discover_hosts"


def test_the_first_names_are_listed_and_the_rest_counted():
    nodes = {str(number): f"host-{number}" for number in range(7)}
    row = compare_host_mappings(surveys(cell(nodes=nodes), mapped={}))
    assert row.details.endswith("host-0, host-1, host-2, host-3, host-4 and 2 more")


def test_a_cloud_without_hosts():
    assert compare_host_mappings(surveys(cell(nodes={}), mapped={})).details == "there is no compute host"


def test_a_node_without_a_provider_is_named():
    assert compare_providers(surveys(cell(), providers={"uuid-a", "uuid-b"})).result == OK
    row = compare_providers(surveys(cell(), providers={"uuid-a"}))
    assert (row.result, row.details) == (WARNING, "1 of 2 nodes have none and are not chosen: b")


def test_old_computes_are_named_with_their_version():
    row = compare_versions(surveys(cell(services=[compute("a"), compute("b", 71)])))
    assert (row.result, row.details) == (WARNING, "1 of 2 services are older than 72: b (71)")
    assert compare_versions(surveys(cell(services=[compute("a"), compute("b", 72)]))).details == "72, 74"


def test_a_scheduler_with_a_fresh_heartbeat_is_named():
    row = find_schedulers(surveys(cell(services=[scheduler("s"), scheduler("dead", age=61), compute("a")])))
    assert (row.result, row.details) == (WARNING, "also running: s")


def test_a_scheduler_may_have_its_record_in_cell0():
    zero = cell(1, None, [scheduler("s")], CELL0_UUID)
    assert find_schedulers(surveys(zero, cell())).details == "also running: s"


@pytest.mark.parametrize(
    ("services", "result", "details"),
    [
        (([], []), OK, "none is seen running"),
        ((None, []), OK, "none is seen running; the services of cell1 cannot be read"),
        ((None, None), OFF, "not known; the services of cell1, cell2 cannot be read"),
    ],
)
def test_it_is_said_where_schedulers_could_not_be_looked_for(services, result, details):
    row = find_schedulers(surveys(cell(1, None, services[0], CELL0_UUID), cell(services=services[1])))
    assert (row.result, row.details) == (result, details)


@pytest.mark.parametrize("compare", COMPARISONS)
def test_what_could_not_be_read_is_not_compared(compare):
    assert compare(surveys()) is None
