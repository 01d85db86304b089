# SPDX-License-Identifier: Apache-2.0
"""The row of the scheduler in nova's list of services."""

import random
from datetime import datetime

import pytest
from sqlalchemy.exc import DBAPIError
from tests.nova_cloud.databases.rights import add_user
from tests.store.servers import LIMITED_USER

from roost.errors import DatabaseReadOnly, DatabaseRefused
from roost.nova.backend import HeartbeatRow
from roost.nova.databases.engines import parse_nova_url
from roost.nova.databases.table_rights import REFUSED_SECONDS, RepeatedWrite, needs_rights
from roost.store.transactions import map_driver_error


@pytest.fixture
def cell(stored_cell):
    """The database of a cell, whose services are put back."""
    before = stored_cell.rows("services")
    yield stored_cell
    stored_cell.remove("services")
    for row in before:
        stored_cell.add("services", row)


@pytest.fixture
def record_on(cell, clock):
    def make(host, address=cell.address):
        return HeartbeatRow(parse_nova_url(address, "the test's address"), host, clock.now, random.Random(1))

    return make


def row_of(cell, host):
    (row,) = cell.rows("services", host=host, binary="nova-scheduler", deleted=0)
    return row


def test_a_new_row_is_one_that_nova_takes_for_a_scheduler_that_is_up(cell, record_on):
    record_on("roost1").beat()
    row = row_of(cell, "roost1")
    assert (row["topic"], row["version"], row["report_count"]) == ("scheduler", 74, 1)
    assert (bool(row["disabled"]), bool(row["forced_down"]), row["disabled_reason"]) == (False, False, None)
    assert row["created_at"] == row["updated_at"] == row["last_seen_up"] == datetime(2026, 11, 17, 6)
    assert len(row["uuid"]) == 36


def test_each_beat_counts_and_moves_the_times(cell, record_on, clock):
    record = record_on("roost1")
    record.beat()
    clock.turn(10)
    record.beat()
    row = row_of(cell, "roost1")
    assert row["report_count"] == 2
    assert row["updated_at"] == row["last_seen_up"] == datetime(2026, 11, 17, 6, 0, 10)


def test_the_row_of_nova_scheduler_on_this_host_is_taken_over_with_its_flags(cell, record_on):
    theirs = cell.rows("services", binary="nova-scheduler")[0]
    cell.change("services", {"id": theirs["id"]}, disabled=True, disabled_reason="on purpose")
    others = [row for row in cell.rows("services") if row["id"] != theirs["id"]]
    record_on(theirs["host"]).beat()
    row = row_of(cell, theirs["host"])
    assert (row["id"], row["uuid"]) == (theirs["id"], theirs["uuid"])
    assert row["report_count"] == theirs["report_count"] + 1
    assert (bool(row["disabled"]), row["disabled_reason"]) == (True, "on purpose")
    assert [row for row in cell.rows("services") if row["id"] != theirs["id"]] == others


def test_a_row_that_was_deleted_is_not_revived(cell, record_on):
    record = record_on("roost1")
    record.beat()
    gone = row_of(cell, "roost1")
    cell.change("services", {"id": gone["id"]}, deleted=gone["id"])
    record.beat()
    assert row_of(cell, "roost1")["id"] != gone["id"]


def test_in_a_cloud_with_newer_services_the_row_has_their_version(cell, record_on):
    cell.change("services", {"binary": "nova-conductor"}, version=76)
    record_on("roost1").beat()
    assert row_of(cell, "roost1")["version"] == 76


def test_two_workers_that_begin_at_once_share_one_row(cell, record_on, monkeypatch):
    first, second = record_on("roost1"), record_on("roost1")
    usual, missed = second._update, iter([False])
    monkeypatch.setattr(second, "_update", lambda connection: next(missed, None) is None and usual(connection))
    first.beat()
    second.beat()
    assert row_of(cell, "roost1")["report_count"] == 2


def test_without_the_right_to_write_the_error_says_what_is_needed_and_it_is_retried_rarely(
    cell, databases, kind, record_on
):
    address = add_user(databases, kind, cell, "record_reader", "SELECT")
    writes = RepeatedWrite(record_on("roost1", address).beat, lambda: 10.0)
    with pytest.raises(
        DatabaseRefused, match=r"it needs: GRANT SELECT, INSERT, UPDATE ON [\w.]*services TO"
    ) as raised:
        writes.run()
    assert "denied" in raised.value.message
    assert writes.seconds() == REFUSED_SECONDS
    assert cell.rows("services", host="roost1") == []


def test_the_rights_that_the_error_names_are_enough(cell, databases, kind, record_on):
    address = add_user(databases, kind, cell, "record_writer", "")
    record = record_on("roost1", address)
    with pytest.raises(DatabaseRefused) as raised:
        record.beat()
    statements = raised.value.hint.removeprefix("it needs: ").split("; ")
    databases.execute(kind, *statements, database=cell.name)
    record.beat()
    record.beat()
    assert row_of(cell, "roost1")["report_count"] == 2


@pytest.mark.parametrize("login", ["record_reader:hush-wrong", "record_reader"])
def test_a_refusal_that_is_no_matter_of_rights_has_no_grant(cell, databases, kind, record_on, login):
    """A wrong password, or a database that is not there."""
    add_user(databases, kind, cell, "record_reader", "SELECT")
    where = cell.address.partition("@")[2]
    if ":" not in login:
        login, where = cell.address.partition("://")[2].partition("@")[0], where.replace(cell.name, "nowhere")
    elif kind == "postgresql":
        login = f"{LIMITED_USER}:hush-wrong"
    record = record_on("roost1", f"{cell.address.partition('://')[0]}://{login}@{where}")
    with pytest.raises(DatabaseRefused) as raised:
        record.beat()
    assert raised.value.hint == "look at user, password, rights and database name in [database] connection"


def test_a_server_that_is_read_only_is_no_matter_of_rights_and_is_retried_rarely():
    def write():
        with needs_rights(parse_nova_url("mysql://nova@db/nova", "x"), "INSERT", "services"):
            error = DBAPIError("", None, Exception(1290, "running with the --read-only option"))
            raise map_driver_error(error, parse_nova_url("mysql://nova@db/nova", "x")) from error

    writes = RepeatedWrite(write, lambda: 10.0)
    with pytest.raises(DatabaseReadOnly) as raised:
        writes.run()
    assert "GRANT" not in raised.value.hint
    assert writes.seconds() == REFUSED_SECONDS


def test_a_right_that_is_missing_for_a_column_is_a_refusal():
    error = DBAPIError("", None, Exception(1143, "UPDATE command denied for column 'mapped'"))
    assert isinstance(map_driver_error(error, parse_nova_url("mysql://nova@db/nova", "x")), DatabaseRefused)


@pytest.mark.parametrize("kind", ["mariadb"], indirect=True)
def test_the_grant_has_the_account_as_the_server_knows_it(cell, databases, record_on):
    databases.execute("mariadb", "CREATE OR REPLACE USER 'record_near'@'127.0.0.%'")
    databases.execute("mariadb", f"GRANT SELECT ON {cell.name}.* TO 'record_near'@'127.0.0.%'")
    address = f"mysql://record_near@{cell.address.partition('@')[2]}"
    with pytest.raises(DatabaseRefused, match=r"services TO 'record_near'@'127\.0\.0\.%';"):
        record_on("roost1", address).beat()
