# SPDX-License-Identifier: Apache-2.0
"""`roost ledger audit` on an SQLite file. tests/store/test_audit.py has what it finds, on all databases."""

import sqlite3

import pytest

ADDRESS = "sqlite:///roost.db"
GUEST = "6f0a6b4e-52d5-4d7c-9b62-3d2c3c1f7a10"


@pytest.fixture
def audit(roost):
    """`roost ledger audit ...` on a file in this folder that has all tables."""
    assert roost("db", "upgrade", "--connection", ADDRESS).code == 0
    return lambda *arguments: roost("ledger", "audit", "--connection", ADDRESS, *arguments)


@pytest.fixture
def leak(audit, tmp_path):
    """A claim whose server never came, and an inventory that adds up to something else."""
    connection = sqlite3.connect(tmp_path / "roost.db")
    connection.executescript(f"""
        INSERT INTO compute_nodes (id, uuid, host, hypervisor_hostname) VALUES (1, 'n', 'east', 'east');
        INSERT INTO inventories (node_id, resource_class, total, used) VALUES (1, 'VCPU', 8, 5);
        INSERT INTO consumers (uuid, created_at) VALUES ('{GUEST}', '2020-01-01 00:00:00.000000');
        INSERT INTO allocations VALUES ('{GUEST}', 1, 'VCPU', 2);
    """)
    connection.close()


def test_books_that_add_up(audit):
    done = audit()
    assert (done.code, done.err) == (0, "")
    assert "everything adds up" in done.out
    assert audit("-f", "json").record == {"findings": [], "healed": 0}


@pytest.mark.usefixtures("leak")
def test_findings_in_a_table_and_in_the_exit_code(audit):
    done = audit()
    assert done.code == 1
    assert "VCPU: 5 used, allocations add up to 2" in done.out
    assert "holds resources, and there is no such server" in done.out
    assert "2 found, 0 healed" in done.out


@pytest.mark.usefixtures("leak")
def test_findings_for_programs(audit):
    done = audit("-f", "json")
    assert [each["kind"] for each in done.record["findings"]] == ["sum", "leak"]
    assert done.record["findings"][1]["subject"] == GUEST


@pytest.mark.usefixtures("leak")
def test_fix_changes_nothing_where_nobody_can_be_asked(audit):
    done = audit("--fix")
    assert done.code == 1
    assert "nothing was changed (--fix --yes heals without asking)" in done.out
    assert len(audit("-f", "json").record["findings"]) == 2


@pytest.mark.usefixtures("leak")
def test_fix_heals_and_then_everything_adds_up(audit):
    done = audit("--fix", "--yes")
    assert (done.code, done.err) == (0, "")
    assert "2 found, 2 healed" in done.out
    assert audit().code == 0


@pytest.mark.usefixtures("leak")
def test_a_young_claim_is_no_leak(audit):
    assert [each["kind"] for each in audit("-f", "json", "--grace", "999999999").record["findings"]] == ["sum"]


def test_yes_without_fix_is_a_mistake(audit):
    done = audit("--yes")
    assert done.code == 2
    assert "--yes goes with --fix" in done.err


def test_a_database_without_tables_is_refused_with_the_command_to_run(roost, tmp_path):
    (tmp_path / "roost.db").touch()
    done = roost("ledger", "audit", "--connection", ADDRESS)
    assert done.code == 4
    assert "run: roost db upgrade" in done.err
    assert "Traceback" not in done.err
