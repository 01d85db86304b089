# SPDX-License-Identifier: Apache-2.0
"""`roost db`: upgrade, version and check, on an SQLite file. tests/store has the other databases."""

import sqlite3

import pytest

ADDRESS = "sqlite:///roost.db"


@pytest.fixture
def db(roost):
    """`roost db ...` on a file in this folder."""
    return lambda verb, *arguments: roost("db", verb, "--connection", ADDRESS, *arguments)


def test_upgrade_makes_the_tables_and_says_so(db):
    done = db("upgrade")
    assert (done.code, done.err) == (0, "")
    assert "upgraded from nothing; the revision is 0009" in done.out
    assert "nothing to do; the revision is 0009" in db("upgrade").out


def test_upgrade_for_programs(db):
    assert db("upgrade", "-f", "json").record == {
        "database": ADDRESS,
        "changed": True,
        "before": None,
        "revision": "0009",
    }
    assert db("upgrade", "-f", "json").record["changed"] is False


def test_version_shows_both_revisions(db):
    db("upgrade")
    assert db("version", "-f", "value").out == f"{ADDRESS} 0009 0009\n"
    assert db("version", "-f", "json").record == {"database": ADDRESS, "revision": "0009", "wanted": "0009"}


def test_check_of_a_database_that_is_up_to_date(db):
    db("upgrade")
    done = db("check")
    assert (done.code, done.err) == (0, "")
    assert "schema and code agree" in done.out


def test_check_of_an_empty_database_names_the_command_to_run(db, tmp_path):
    (tmp_path / "roost.db").touch()
    done = db("check")
    assert done.code == 4
    assert "the database has no tables yet (run: roost db upgrade)" in done.out
    assert db("check", "-f", "json").record["state"] == "empty"


def test_check_names_what_is_missing(db, tmp_path):
    db("upgrade")
    connection = sqlite3.connect(tmp_path / "roost.db")
    connection.execute("DROP TABLE decisions")
    connection.close()
    done = db("check", "-f", "json")
    assert (done.code, done.record["state"], done.record["missing"]) == (4, "damaged", ["decisions"])
    assert "decisions" in db("check", "-f", "value").out


def test_upgrade_leaves_the_database_of_another_program_alone(db, tmp_path):
    connection = sqlite3.connect(tmp_path / "roost.db")
    connection.execute("CREATE TABLE instances (id INTEGER)")
    connection.close()
    db("upgrade").assert_refused("belongs to another program", "a database of its own", code=4)


def test_a_database_that_is_not_there(db, tmp_path):
    db("check").assert_refused("there is no such file", "roost db upgrade makes it", code=4)
    db("version").assert_refused("there is no such file", code=4)
    assert list(tmp_path.iterdir()) == []


def test_the_address_comes_from_the_config_file_and_the_argument_wins(roost, tmp_path):
    (tmp_path / "nova.conf").write_text(
        "[database]\nconnection = sqlite:///one.db\n[filter_scheduler]\nram_weight_multiplier = 2\n"
    )
    assert roost("db", "upgrade", "--config-file", "nova.conf").code == 0
    assert roost("db", "upgrade", "--config-file", "nova.conf", "--connection", "sqlite:///two.db").code == 0
    assert {path.name for path in tmp_path.glob("*.db")} == {"one.db", "two.db"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "[database] connection is not set"),
        (("--connection", ""), "[database] connection is not set"),
        (("--connection", "oracle://u:secret@h/db"), "'oracle' is no kind of database"),
        (("--config-file", "nowhere.conf"), "nowhere.conf: cannot be read"),
        (("--conection", "x"), "did you mean --connection?"),
        (("-f", "xml"), "--format"),
    ],
)
@pytest.mark.parametrize("verb", ["upgrade", "version", "check"])
def test_wrong_input_is_one_line(roost, verb, arguments, message):
    done = roost("db", verb, *arguments)
    done.assert_refused(message)
    assert "secret" not in done.err


def test_a_server_that_is_down_is_one_line_without_the_password(roost):
    done = roost("db", "check", "--connection", "postgresql://roost:secret@127.0.0.1:1/roost")
    done.assert_refused("cannot be reached", "Connection refused", code=4)
    assert "secret" not in done.err
