# SPDX-License-Identifier: Apache-2.0
"""`roost fleet import` and `roost fleet export`, on an SQLite file. tests/store has the other databases."""

import json
import os
import sqlite3

import pytest
import yaml

from roost.cli.output import write_atomically
from roost.errors import BadInput
from roost.sources.fleet_file import Fleet

ADDRESS = "sqlite:///roost.db"


@pytest.fixture
def empty(roost):
    """`roost fleet VERB ...` on a file in this folder that may not be there."""
    return lambda verb, *arguments: roost("fleet", verb, *arguments, "--connection", ADDRESS)


@pytest.fixture
def db(roost, empty):
    """The same, with all tables."""
    assert roost("db", "upgrade", "--connection", ADDRESS, "-q").code == 0
    return empty


def stored_hosts(folder):
    connection = sqlite3.connect(folder / "roost.db")
    try:
        return connection.execute("SELECT count(*) FROM compute_nodes").fetchone()[0]
    finally:
        connection.close()


def test_an_import_says_what_is_new_and_the_next_one_that_nothing_is(db, fleet):
    done = db("import", fleet)
    assert (done.code, done.err) == (0, "")
    assert "hosts" in done.out
    assert "server groups" in done.out
    assert db("import", fleet, "-f", "value").out.splitlines()[:2] == ["hosts 0 0 5", "aggregates 0 0 1"]


def test_an_import_for_programs(db, fleet):
    record = db("import", fleet, "-f", "json").record
    assert record["database"] == ADDRESS
    assert record["dry_run"] is False
    assert record["hosts"] == {"new": 5, "changed": 0, "unchanged": 0}
    assert record["server_groups"] == {"new": 1, "changed": 0, "unchanged": 0}
    assert (record["hosts_left_alone"], record["notes"]) == (0, [])


def test_a_dry_run_writes_nothing_and_says_so(db, fleet, tmp_path):
    done = db("import", fleet, "--dry-run")
    assert done.code == 0
    assert "dry run: nothing was written" in done.out
    assert stored_hosts(tmp_path) == 0
    assert db("import", fleet, "--dry-run", "-f", "json").record["hosts"]["new"] == 5


def test_hosts_that_are_left_alone_and_options_are_mentioned(db, fleet, tmp_path):
    db("import", fleet)
    (tmp_path / "other.yaml").write_text("hosts: [{host: other}]\noptions: {filter_scheduler: {}}\n")
    done = db("import", "other.yaml")
    assert "5 hosts of the database are not in the file: left alone" in done.out
    assert "the options of the file are not stored" in done.out


def test_a_file_that_is_wrong_is_told_with_its_line(db, tmp_path):
    (tmp_path / "bad.yaml").write_text("hosts:\n  - host: a\n    vcpus_total: -1\n")
    db("import", "bad.yaml").assert_refused("bad.yaml, line 3", "vcpus_total")
    db("import", "nowhere.yaml").assert_refused("nowhere.yaml: cannot be read")


def test_what_does_not_fit_into_the_database_is_one_line(db, tmp_path):
    (tmp_path / "bad.json").write_text(json.dumps({"hosts": [{"host": "a"}, {"host": "b" * 256}]}))
    db("import", "bad.json").assert_refused("256 characters long", "at most 255")
    assert stored_hosts(tmp_path) == 0


@pytest.mark.parametrize("verb", ["import", "export"])
def test_a_database_that_cannot_be_used(empty, fleet, tmp_path, verb):
    arguments = (fleet,) if verb == "import" else ()
    empty(verb, *arguments).assert_refused("there is no such file", "roost db upgrade", code=4)
    (tmp_path / "roost.db").touch()
    empty(verb, *arguments).assert_refused("no tables yet", "run: roost db upgrade", code=4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("import",), "FILE"),
        (("import", "x", "--dryrun"), "did you mean --dry-run?"),
        (("export", "a", "b"), "unknown argument b"),
        (("export", "-f", "csv"), "a fleet is more than a table"),
        (("export", "nowhere/x.yaml"), "nowhere/x.yaml: No such file or directory"),
    ],
)
def test_wrong_arguments_are_one_line(db, arguments, message):
    db(*arguments).assert_refused(message)


def test_the_database_may_be_named_in_a_file(roost, db, fleet, tmp_path):
    (tmp_path / "roost.conf").write_text(f"[database]\nconnection = {ADDRESS}\n")
    assert roost("fleet", "import", fleet, "--config-file", "roost.conf").code == 0
    assert "host: node-1" in roost("fleet", "export", "--config-file", "roost.conf").out


def test_an_export_is_a_fleet_file(db, fleet):
    db("import", fleet)
    written = db("export")
    assert (written.code, written.err) == (0, "")
    assert Fleet.load(yaml.safe_load(written.out)).table.names == Fleet.load(fleet).table.names
    assert db("export", "-f", "json").record == yaml.safe_load(written.out)


def test_an_export_to_a_file_replaces_it_as_a_whole(db, fleet, tmp_path, monkeypatch):
    db("import", fleet)
    (tmp_path / "out.json").write_text("old")
    done = db("export", "out.json")
    assert "written to out.json" in done.out
    whole = json.loads((tmp_path / "out.json").read_text())
    assert len(whole["hosts"]) == 5
    assert db("export", "out.yaml", "-f", "json").record["hosts"] == 5
    assert yaml.safe_load((tmp_path / "out.yaml").read_text()) == whole

    def fail(number):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(BadInput, match="No space left"):
        write_atomically(tmp_path / "out.yaml", b"half")
    assert yaml.safe_load((tmp_path / "out.yaml").read_text()) == whole
    assert not list(tmp_path.glob(".out*"))


def test_there_is_no_bar_where_nobody_watches(process, fleet):
    assert process("db", "upgrade", "--connection", ADDRESS).code == 0
    done = process("fleet", "import", fleet, "--connection", ADDRESS)
    assert (done.code, done.err) == (0, "")
