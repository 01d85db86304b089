# SPDX-License-Identifier: Apache-2.0
"""D35: a service that cannot use its database, whatever is restarted, ends with exit code 4 and one line."""

import json
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from roost.cli.main import main
from roost.services.workers import Supervisor

SERVICES = ["scheduler", "conductor", "api", "compute --fake-hosts 1"]
OPTIONS = """
[scheduler]
workers = 2
[conductor]
workers = 2
[DEFAULT]
osapi_compute_workers = 2
osapi_compute_listen_port = 0
transport_url = rabbit://nobody@127.0.0.1:1/
"""


@pytest.fixture
def config(tmp_path, monkeypatch):
    """Makes a config file for a database in which these statements were executed."""

    def no_worker(self):
        pytest.fail("workers are started, which cannot work")

    monkeypatch.setattr(Supervisor, "start", no_worker)
    monkeypatch.setattr("roost.cli.service.set_up_logging", lambda options, binary: None)

    def make(*statements, upgraded=False, connection=f"sqlite:///{tmp_path}/cell.db"):
        if upgraded:
            assert main(["db", "upgrade", "--quiet", "--connection", connection]) == 0
        with closing(sqlite3.connect(tmp_path / "cell.db")) as database, database:
            for statement in statements:
                database.execute(statement)
        file = tmp_path / "nova.conf"
        file.write_text(f"{OPTIONS}[database]\nconnection = {connection}\n[roost]\nhealth_port = -1\n")
        return file

    return make


NOVA = (
    "create table alembic_version (version_num varchar(32))",
    "insert into alembic_version values ('6c2e5b1e4f2a')",
    "create table compute_nodes (id integer)",
)


def run(capsys, service, file):
    code = main(["service", *service.split(), "--config-file", str(file)])
    log = "roost: error: "  # goes elsewhere where logging is set up
    return code, [line for line in capsys.readouterr().err.splitlines() if not line.startswith(log)]


@pytest.mark.parametrize("service", SERVICES)
def test_a_database_of_nova_is_refused_in_a_line(config, capsys, service):
    """D35: workers were restarted for ever."""
    code, (line,) = run(capsys, service, config(*NOVA))
    assert code == 4
    assert "the database belongs to another program" in line
    assert "give Roost a database of its own" in line


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("update roost_version set version_num = '9000'", "install that version here too"),
        ("drop table migrations", "bring it back from a backup"),
    ],
)
def test_tables_that_no_restart_mends_are_refused_in_a_line(config, capsys, statement, said):
    """D35: made by a newer Roost, or damaged."""
    code, (line,) = run(capsys, "conductor", config(statement, upgraded=True))
    assert (code, said in line) == (4, True)


def test_a_database_that_does_not_let_the_service_in_is_a_line(config, capsys, databases):
    """D35: rights come back by somebody's hand alone."""
    code, (line,) = run(capsys, "conductor", config(connection=f"{databases.create('postgresql')}_of_nobody"))
    assert (code, "does not let us in" in line) == (4, True)


def test_an_api_database_that_is_not_that_of_nova_is_a_line(config, capsys, databases):
    """D35: in a nova cloud, whose placement is not asked before."""
    empty = databases.create("postgresql")
    file = config(connection=empty)
    nova = f"[roost]\ncloud = nova\n[api_database]\nconnection = {empty}\n"
    file.write_text(f"{file.read_text()}{nova}[placement]\nauth_type = none\nendpoint = http://127.0.0.1:1\n")
    code, (line,) = run(capsys, "scheduler", file)
    assert code == 4
    assert "has not the tables that are needed" in line
    assert "[api_database] connection" in line


def test_a_database_that_is_away_is_waited_for_by_the_workers(config):
    """D35: what may heal is tried again."""
    file = config(connection="postgresql+psycopg://roost@127.0.0.1:1/roost")
    with pytest.raises(pytest.fail.Exception, match="workers are started"):
        main(["service", "conductor", "--config-file", str(file)])


def test_a_worker_tells_its_parent_that_no_restart_helps_it(config, tmp_path):
    """D35: the database became another one while the service runs."""
    command = [sys.executable, "-m", "roost", "service", "conductor", "--config-file", str(config(*NOVA))]
    words = ["--worker", "1", "--metrics-folder", str(tmp_path)]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen([*command, *words], **pipes) as worker:
        (line,) = worker.stdout.read().splitlines()
    assert worker.returncode == 4
    (said,) = json.loads(line).values()
    assert said["code"] == "roost.database.schema"
    assert "belongs to another program" in said["message"]
