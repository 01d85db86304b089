# SPDX-License-Identifier: Apache-2.0
"""`roost service compute` as an operator meets it: many fake hosts in a process, health page, metrics, its end."""

import os
import signal
import urllib.request

import pytest
from tests.services.stack import ROOST

from roost.cli.main import main
from roost.trial.private_servers import free_port
from roost.trial.process import ProcessPlan


@pytest.fixture
def config(tmp_path):
    file = tmp_path / "roost.conf"
    database = f"[database]\nconnection = sqlite:///{tmp_path}/roost.db\n"
    file.write_text(
        f"[DEFAULT]\ntransport_url = in-process://\n{database}[roost]\ncompute_health_port = {free_port()}\n"
    )
    assert main(["db", "upgrade", "--config-file", str(file)]) == 0
    return file


def test_one_process_is_the_agents_of_many_fake_hosts(config, tmp_path, capsys):
    port = int(config.read_text().rpartition(" ")[2])
    words = ("--fake-hosts", "3", "--first-number", "9", "--fake-name", "cn%02d")
    command = (*ROOST, "service", "compute", "--config-file", str(config), *words)
    log = tmp_path / "compute.log"
    plan = ProcessPlan("compute-1", "compute", command, str(log), port, has_health_page=True)
    process = plan.start()
    while plan.unready():
        assert process.is_alive(), log.read_text()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as page:
        shown = page.read().decode()
    assert 'service="compute"' in shown
    assert "roost_decisions_total" not in shown
    capsys.readouterr()
    assert main(["fleet", "export", "--config-file", str(config)]) == 0
    exported = capsys.readouterr().out
    assert [name for name in ("cn09", "cn10", "cn11", "cn12") if name in exported] == ["cn09", "cn10", "cn11"]
    process.send(signal.SIGTERM)
    _, status = os.waitpid(process.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert "agents started hosts=3" in log.read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--fake-hosts", "0"], "--fake-hosts"),
        (["--fake-hosts", "1", "--fake-name", "same"], "'same' is not a name with one %d or %04d"),
        (["--fake-hosts", "1", "--fake-name", "%s"], "'%s' is not a name with one %d or %04d"),
    ],
)
def test_wrong_arguments_are_refused_in_a_line(config, capsys, words, said):
    capsys.readouterr()
    assert main(["service", "compute", "--config-file", str(config), *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
