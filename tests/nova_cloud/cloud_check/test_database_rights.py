# SPDX-License-Identifier: Apache-2.0
"""`roost cloud check` with real databases: rights, GRANT lines, and connections that fail."""

import pytest
from tests.nova_cloud.cloud_check.conftest import PASSWORD, USER
from tests.store.servers import LIMITED_USER

from roost.trial.private_servers import free_port

API, CELL = "API database", "cell cell1"


@pytest.fixture
def check_databases(nova, check, cloud):
    """A check as the user with few rights, with a placement that works."""
    return lambda **sections: check(nova.address(API), f"http://127.0.0.1:{cloud.real_port}", **sections)


def test_the_right_to_select_is_enough(nova, check_databases):
    nova.grant_all()
    found = check_databases()
    assert found.code == 0, found.text
    assert found.of(API, "tables") == [("ok", "9 of 9 can be read")]
    assert found.of(CELL, "tables") == [("ok", "5 of 5 can be read")]
    assert found.of(API, "rights") == found.of(CELL, "rights") == [("ok", "reads only")]
    assert found.of("cell cell0") == [("off", "not read: it has no hosts")]
    assert PASSWORD not in found.text


@pytest.mark.parametrize(("where", "table"), [(API, "host_mappings"), (CELL, "instances")])
def test_the_grant_line_of_a_table_makes_the_check_good(nova, check_databases, where, table):
    nova.grant_all()
    nova.run(where, f"REVOKE SELECT ON {table} FROM {nova.account}")
    found = check_databases()
    assert found.code == 1
    assert found.of(where, "table") == [("missing", f"{table}: no right to SELECT")]
    ((where, statement),) = found.statements
    assert statement.startswith("GRANT SELECT ON ")
    nova.run(where, statement)
    assert check_databases().code == 0


def test_a_user_without_any_right_gets_all_of_them_from_the_grant_lines(nova, check_databases):
    for where, count in ((API, 9), (CELL, 5)):
        found = check_databases()
        assert (found.code, len(found.statements)) == (1, count), found.text
        for each in found.statements:
            assert each[0] == where
            nova.run(*each)
    assert check_databases().code == 0


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
@pytest.mark.parametrize(
    ("taken", "back", "grant"),
    [
        ("REVOKE USAGE ON SCHEMA public FROM PUBLIC", "GRANT USAGE ON SCHEMA public TO PUBLIC", "GRANT USAGE ON"),
        ("REVOKE CONNECT ON DATABASE {} FROM PUBLIC", "GRANT CONNECT ON DATABASE {} TO PUBLIC", "GRANT CONNECT ON"),
    ],
)
def test_postgresql_also_has_rights_on_schemas_and_databases(nova, check_databases, taken, back, grant):
    nova.grant_all()
    name = nova.api.engine.url.database
    nova.run(API, taken.format(name))
    try:
        found = check_databases()
        assert found.code == 1
        assert all(each.startswith(grant) for _, each in found.statements)
        for each in found.statements:
            nova.run(*each)
        assert check_databases().code == 0
    finally:
        nova.run(API, back.format(name))


def test_a_user_who_may_write_is_told_so(nova, check):
    nova.grant_all()
    nova.run(CELL, f"GRANT INSERT, UPDATE ON services TO {nova.account}")
    found = check(nova.api.address)
    (said,) = found.of(API, "rights")
    assert said[0] == "ok"
    assert "can write too" in said[1]
    scope = f"INSERT, UPDATE on {nova.cell.engine.url.database}.services"
    told = {"mariadb": scope, "postgresql": "1 of 5 tables"}[nova.kind]
    assert found.of(CELL, "rights") == [("ok", f"can write too ({told}); SELECT is enough")]


def test_a_table_that_is_not_there_is_no_matter_of_rights(nova, check):
    found = check(nova.cell.address)
    assert ("failed", "cell_mappings: there is no such table") in found.of(API, "table")
    assert found.statements == []
    assert found.of("cells") == [("off", "not tried: the cell mappings cannot be read")]


def test_a_column_that_is_not_there_is_named(nova, check):
    nova.run(API, "ALTER TABLE aggregates RENAME COLUMN uuid TO other")
    try:
        ((result, details),) = check(nova.api.address).of(API, "table")
    finally:
        nova.run(API, "ALTER TABLE aggregates RENAME COLUMN other TO uuid")
    assert result == "failed"
    assert details.startswith("aggregates: lacks a column: ")
    assert "uuid" in details


# --- connections -------------------------------------------------------------------------------------


def test_a_wrong_password_is_said_without_it(nova, check):
    user = LIMITED_USER if nova.kind == "postgresql" else USER
    found = check(nova.address(API, f"{user}:hush-wrong"))
    row = found.only(API, "connection")
    assert (found.code, row["result"]) == (1, "failed")
    assert "does not let us in" in row["details"]
    assert "[api_database] connection" in row["remedy"]
    assert "hush" not in found.text


def test_a_wrong_password_for_cells_names_the_options_it_is_from(nova, check):
    user = LIMITED_USER if nova.kind == "postgresql" else USER
    own = {"cell_database_user": user, "cell_database_password": "hush-wrong"}
    row = check(nova.api.address, roost=own).only(CELL, "connection")
    assert row["result"] == "failed"
    assert "[roost] cell_database_user and cell_database_password" in row["remedy"]


def test_a_cell_that_is_down_does_not_hide_the_rest(nova, check):
    scheme = nova.cell.address.partition("://")[0]
    with nova.mapped_to(f"{scheme}://nova:hush@127.0.0.1:{free_port()}/nova_cell1"):
        found = check(nova.api.address)
    row = found.only(CELL, "connection")
    assert (found.code, row["result"]) == (1, "failed")
    assert "cannot be reached" in row["details"]
    assert found.of(API, "tables") == [("ok", "9 of 9 can be read")]
    assert found.of("configuration", "plugins")[0][0] == "ok"
    assert "hush" not in found.text


def test_a_disabled_cell_is_not_read(nova, check):
    with nova.mapped_to(nova.cell.address, disabled=True):
        found = check(nova.api.address)
    assert found.of(CELL) == [("off", "not read: the cell is disabled")]


def test_a_mapping_that_is_not_understood_is_a_row(nova, check):
    with nova.mapped_to("oracle://nova:hush@h/n"):
        found = check(nova.api.address)
    ((result, details),) = found.of("cells", "cell mapping")
    assert result == "failed"
    assert "'oracle' is no kind of database" in details
    assert "hush" not in found.text


def test_templates_in_cell_mappings_are_filled_in(nova, check):
    nova.grant_all()
    with nova.mapped_to("{scheme}://{username}@{hostname}:{port}/{path}"):
        found = check(nova.api.address, database={"connection": nova.cell.address})
    assert found.of(CELL, "tables") == [("ok", "5 of 5 can be read")]


def test_an_api_database_without_an_address_is_a_row(check):
    found = check("")
    assert found.code == 1
    assert "[api_database] connection is not set" in found.only(API, "connection")["details"]
