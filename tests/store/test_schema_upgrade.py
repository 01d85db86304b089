# SPDX-License-Identifier: Apache-2.0
"""Upgrades: from nothing, from the first revision with data, twice, by two at once; and what `check` says."""

import shutil
import subprocess
import sys

import pytest
from sqlalchemy import inspect, text
from tests.store.rows import columns_there, contents, fill

from roost.errors import SchemaError
from roost.store import schema_upgrade as upgrades
from roost.store.schema import metadata
from roost.store.schema_upgrade import check, ensure_current, upgrade

HEAD, NEXT = "0009", "0010"
NEXT_REVISION = f"""\
import sqlalchemy as sa
from alembic import op
revision = "{NEXT}"
down_revision = "{HEAD}"
def upgrade():
    op.add_column("servers", sa.Column("colour", sa.String(20), nullable=False, server_default="green"))
"""
UPGRADER = """\
import sys
from roost.store.engine import open_engine
from roost.store.options import DatabaseOptions
from roost.store.schema_upgrade import upgrade
engine = open_engine(DatabaseOptions(connection=sys.argv[1]), may_create=True)
print("ready", flush=True)
sys.stdin.readline()
before, after = upgrade(engine)
print(before.state, after.state)
engine.dispose()
"""


@pytest.fixture
def next_revision(tmp_path, monkeypatch):
    """Calling it makes the code one revision newer than it is."""

    def publish():
        folder = tmp_path / "revisions"
        shutil.copytree(upgrades.REVISIONS, folder, ignore=shutil.ignore_patterns("__pycache__"))
        (folder / f"r{NEXT}_next.py").write_text(NEXT_REVISION)
        monkeypatch.setattr(upgrades, "REVISIONS", folder)

    return publish


def execute(engine, *statements):
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))


def test_from_nothing_to_all_tables(empty):
    before, after = upgrade(empty)
    assert (before.state, before.revision, after.state, after.revision) == ("empty", None, "current", HEAD)
    assert set(inspect(empty).get_table_names()) == {*metadata.tables, upgrades.VERSION_TABLE}
    ensure_current(empty)


def test_a_second_upgrade_changes_nothing(empty):
    upgrade(empty)
    with empty.begin() as connection:
        fill(connection)
        full = contents(connection)
    before, after = upgrade(empty)
    assert (before, before.state) == (after, "current")
    with empty.connect() as connection:
        assert contents(connection) == full


def test_from_the_first_revision_with_data_in_every_table(empty, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        (first,) = upgrades.REVISIONS.glob("r0001*.py")
        shutil.copy(first, tmp_path)
        patch.setattr(upgrades, "REVISIONS", tmp_path)
        upgrade(empty)
    with empty.begin() as connection:
        fill(connection)
        columns = columns_there(connection)
        full = contents(connection)
    before, after = upgrade(empty)
    assert (before.state, before.revision, after.state, after.revision) == ("older", "0001", "current", HEAD)
    with empty.connect() as connection:
        assert contents(connection, columns) == full
        assert columns_there(connection) != columns


def test_to_a_coming_revision_with_data_in_every_table(empty, next_revision):
    upgrade(empty)
    with empty.begin() as connection:
        fill(connection)
        full = contents(connection)
    next_revision()
    before, after = upgrade(empty)
    assert (before.state, before.revision, after.state, after.revision) == ("older", HEAD, "current", NEXT)
    with empty.connect() as connection:
        assert contents(connection) == full
        assert connection.scalar(text("SELECT colour FROM servers")) == "green"


def test_an_interrupted_upgrade_is_brought_to_its_end(empty):
    upgrade(empty)
    execute(empty, f"DELETE FROM {upgrades.VERSION_TABLE}", "DROP TABLE changes", "DROP TABLE allocations")
    assert check(empty).state == "unfinished"
    assert upgrade(empty)[1].state == "current"


def test_two_processes_may_upgrade_at_once(address):
    command = [sys.executable, "-W", "error", "-c", UPGRADER, address]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    both = [subprocess.Popen(command, **pipes) for _ in range(2)]
    for each in both:
        assert each.stdout.readline() == "ready\n", each.communicate()
    for each in both:
        each.stdin.write("go\n")
        each.stdin.flush()
    said = [each.communicate(timeout=60) for each in both]
    assert sorted(out for out, _ in said) == ["current current\n", "empty current\n"], said


# --- what a service is told --------------------------------------------------------------------------


def refused(engine, *words):
    with pytest.raises(SchemaError) as caught:
        ensure_current(engine)
    for word in words:
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_empty_database_is_refused_with_the_command_to_run(empty):
    assert check(empty).state == "empty"
    refused(empty, "no tables yet", "run: roost db upgrade")
    assert inspect(empty).get_table_names() == []


def test_an_older_database_is_refused_with_the_command_to_run(empty, next_revision):
    upgrade(empty)
    next_revision()
    refused(empty, "older than the code", f"it has revision {HEAD}, this Roost needs {NEXT}", "run: roost db upgrade")


def test_a_newer_database_is_refused_and_not_touched(empty):
    upgrade(empty)
    execute(empty, f"UPDATE {upgrades.VERSION_TABLE} SET version_num = '0099'")
    refused(empty, "made by a newer Roost", "0099", "install that version")
    with pytest.raises(SchemaError, match="newer"):
        upgrade(empty)
    assert check(empty).revision == "0099"


def test_the_database_of_another_program_is_refused_and_not_touched(empty):
    execute(empty, "CREATE TABLE instances (id INTEGER)", "CREATE TABLE alembic_version (version_num VARCHAR(32))")
    refused(empty, "belongs to another program", "a database of its own")
    with pytest.raises(SchemaError, match="another program"):
        upgrade(empty)
    assert sorted(inspect(empty).get_table_names()) == ["alembic_version", "instances"]


def test_a_table_or_column_that_was_taken_away_is_named(empty):
    upgrade(empty)
    execute(empty, "DROP TABLE decisions", "ALTER TABLE servers DROP COLUMN vm_state")
    assert check(empty).missing == ("decisions", "servers.vm_state")
    refused(empty, "tables or columns are missing: decisions, servers.vm_state", "backup")
    with pytest.raises(SchemaError, match="missing"):
        upgrade(empty)


def test_tables_of_others_beside_ours_do_no_harm(empty):
    upgrade(empty)
    execute(empty, "CREATE TABLE notes (id INTEGER)")
    ensure_current(empty)
