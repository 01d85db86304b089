# SPDX-License-Identifier: Apache-2.0
"""The rights to the optional writes, and to what shadow mode reads, as `roost cloud check` tells of them."""

import pytest

API, CELL = "API database", "cell cell1"
RECORD, DISCOVERY = "service record", "host discovery"
EVERY_MINUTE = {"discover_hosts_in_cells_interval": 60}


@pytest.fixture
def check_databases(nova, check, cloud):
    """A check as a user who may read, with a placement that works."""
    nova.grant_all()
    return lambda **sections: check(nova.address(API), f"http://127.0.0.1:{cloud.real_port}", **sections)


def run_statements(nova, found, where=None):
    for each, statement in found.statements:
        for part in statement.split("; "):
            nova.run(where or each, part)


def test_writes_that_are_off_are_rows_that_are_off(check_databases):
    found = check_databases()
    assert found.of("configuration", RECORD) == [("off", "not written: [roost] service_record = False")]
    off = "not written: [scheduler] discover_hosts_in_cells_interval = -1"
    assert found.of("configuration", DISCOVERY) == [("off", off)]


def test_the_grant_lines_of_host_discovery_make_the_check_good(nova, check_databases):
    found = check_databases(scheduler=EVERY_MINUTE)
    assert found.code == 1
    assert found.of(API, DISCOVERY) == [("missing", "host_mappings: no right to INSERT")]
    assert found.of(CELL, DISCOVERY) == [("missing", "compute_nodes: no right to UPDATE")]
    run_statements(nova, found)
    found = check_databases(scheduler=EVERY_MINUTE)
    assert found.code == 0, found.text
    assert found.of(API, DISCOVERY) == [("ok", "may SELECT, INSERT host_mappings")]
    assert found.of(CELL, DISCOVERY) == [("ok", "may SELECT, UPDATE compute_nodes")]


def test_the_grant_line_of_the_service_record_makes_the_check_good(nova, check_databases):
    sections = {"roost": {"service_record": True}, "database": {"connection": nova.address(CELL)}}
    where = f"database {nova.cell.name}"
    found = check_databases(**sections)
    assert found.code == 1
    assert found.of(where, RECORD) == [("missing", "services: no right to INSERT, UPDATE")]
    run_statements(nova, found, CELL)
    found = check_databases(**sections)
    assert (found.code, found.of(where, RECORD)) == (0, [("ok", "may SELECT, INSERT, UPDATE services")]), found.text


@pytest.mark.parametrize("kind", ["mariadb"], indirect=True)
def test_a_right_to_some_columns_is_not_enough(nova, check_databases):
    nova.run(CELL, f"GRANT UPDATE (mapped, deleted) ON compute_nodes TO {nova.account}")
    found = check_databases(scheduler=EVERY_MINUTE)
    assert found.of(CELL, DISCOVERY) == [("missing", "compute_nodes: no right to UPDATE")]


def test_a_service_record_without_an_address_fails(check_databases):
    row = check_databases(roost={"service_record": True}).only("configuration", RECORD)
    assert (row["result"], row["details"]) == ("failed", "[database] connection is not set")
    assert row["remedy"].startswith("write it as ")


def test_a_service_record_in_a_database_without_services_fails(nova, check_databases):
    sections = {"roost": {"service_record": True}, "database": {"connection": nova.api.address}}
    row = check_databases(**sections).only(f"database {nova.api.name}", RECORD)
    assert (row["result"], row["details"]) == ("failed", "services: there is no such table")
    assert row["remedy"] == "look at [database] connection"


def test_shadow_mode_writes_nothing(nova, check_databases):
    sections = {"roost": {"service_record": True, "shadow": True}, "database": {"connection": nova.address(CELL)}}
    found = check_databases(scheduler=EVERY_MINUTE, **sections)
    expected = [("off", "not written: [roost] shadow = True")]
    assert found.of("configuration", RECORD) == found.of("configuration", DISCOVERY) == expected


def test_shadow_mode_also_reads_request_specs(nova, check_databases):
    found = check_databases(roost={"shadow": True})
    assert found.code == 1
    assert found.of(API, "table") == [("missing", "request_specs: no right to SELECT")]
    run_statements(nova, found)
    found = check_databases(roost={"shadow": True})
    assert (found.code, found.of(API, "tables")) == (0, [("ok", "10 of 10 can be read")]), found.text
