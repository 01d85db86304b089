# SPDX-License-Identifier: Apache-2.0
"""Decisions in a nova cloud are kept in a file of the scheduler's machine, and asked about there."""

import json
import random

import pytest

from roost.cli.main import main
from roost.clock import SystemClock
from roost.errors import NoValidHost
from roost.nova.backend import NovaCloud
from roost.nova.decision_file import decision_file
from roost.scheduler.all_options import read_options
from roost.scheduler.pipeline import Pipeline
from roost.services.metrics import Metrics
from roost.testing import make_hosts, make_spec

UUID = "6a0b7c1e-5ef2-4a3e-9d7b-0c9b8f7a1e01"


@pytest.fixture
def nova_conf(tmp_path):
    file = tmp_path / "nova.conf"
    file.write_text(
        f"[roost]\ncloud = nova\nstate_directory = {tmp_path}\n[filter_scheduler]\nenabled_filters = ComputeFilter\n"
        "[database]\nconnection = mysql+pymysql://nova@127.0.0.1:1/nova_cell1\n"
        "[api_database]\nconnection = mysql+pymysql://nova@127.0.0.1:1/nova_api\n"
        "[placement]\nauth_type = none\nendpoint = http://127.0.0.1:1\n"
    )
    return file


def shared():
    return {"clock": SystemClock(), "randomness": random.Random(1), "metrics": Metrics()}


def record_a_decision(settings, memory_mb=4096):
    kept = decision_file(settings, **shared())
    kept.open()
    table = make_hosts(host=["a", "b"], vcpus_total=8, total_usable_ram_mb=1024).table.copy()
    spec = make_spec(memory_mb=memory_mb)
    seen = kept.recorder.observe(table, spec)
    try:
        decision = Pipeline([], []).place(table, spec, [UUID], randomness=random.Random(1), clock=lambda: 0)
    except NoValidHost as error:
        decision = error.decision
    kept.recorder.record(seen, decision, [UUID], "req-1", 1)
    kept.close()


def test_a_decision_is_asked_about_on_the_machine_of_the_scheduler(nova_conf, capsys):
    record_a_decision(read_options([nova_conf]))
    assert main(["decision", "list", "--config-file", str(nova_conf), "-f", "json"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert listed["summary"] == "0 of 2 hosts fit: 2 ram (needs 4096 MiB, most free 1024)"
    assert main(["decision", "why", UUID, "--config-file", str(nova_conf), "-f", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["hosts"] == 2


def test_a_node_needs_its_host(nova_conf, capsys):
    assert main(["decision", "why", UUID, "--node", "a", "--config-file", str(nova_conf)]) == 2
    assert "--node is for --host" in capsys.readouterr().err


def test_below_the_scores_of_a_winner_is_one_line(nova_conf, capsys):
    record_a_decision(read_options([nova_conf]), memory_mb=512)
    assert main(["decision", "why", UUID, "--host", "a", "--config-file", str(nova_conf)]) == 0
    *_, above, line = capsys.readouterr().out.splitlines()
    assert above.strip()
    assert line.startswith("decision 1 of ")


def test_without_a_file_the_folder_is_named(nova_conf, capsys):
    assert main(["decision", "list", "--config-file", str(nova_conf)]) == 2
    assert "no scheduler has recorded decisions there" in capsys.readouterr().err


def test_a_scheduler_of_a_nova_cloud_records_where_it_has_a_folder(nova_conf, monkeypatch):
    monkeypatch.delenv("STATE_DIRECTORY", raising=False)
    cloud = NovaCloud(read_options([nova_conf]), [nova_conf], **shared())
    assert cloud.recorder is not None
    assert {"record decisions", "prune old decisions"} <= {task.name for task in cloud.tasks()}
    cloud.close()
    nova_conf.write_text(nova_conf.read_text().replace("state_directory", "# state_directory"))
    cloud = NovaCloud(read_options([nova_conf]), [nova_conf], **shared())
    assert cloud.recorder is None
    cloud.close()


def test_a_folder_that_cannot_be_written_does_not_keep_a_scheduler_from_starting(nova_conf, caplog):
    (nova_conf.parent / "decisions.sqlite").mkdir()
    kept = decision_file(read_options([nova_conf]), **shared())
    kept.open()
    assert "decisions are not recorded" in caplog.text
    kept.close()
