# SPDX-License-Identifier: Apache-2.0
"""Which processes a cluster has, and what they are told."""

import configparser
import stat
from pathlib import Path

import pytest

from roost.cli.main import main
from roost.errors import BadInput
from roost.trial.plan import ClusterPlan, ClusterShape
from roost.trial.state import StateFolder, default_state_folder

GIVEN = {"database": "postgresql://roost:secret@db/roost", "broker": "rabbit://roost:secret@mq/"}


@pytest.fixture
def folder(tmp_path):
    made = StateFolder(tmp_path / "cluster")
    made.create()
    return made


def names(plan):
    return [each.name for each in plan.processes]


def read(file):
    parser = configparser.RawConfigParser(default_section="none")
    parser.read(file)
    return {section: dict(parser[section]) for section in parser.sections()}


def test_servers_come_first_and_what_clients_reach_last(folder):
    plan = ClusterPlan(folder, ClusterShape(conductors=1, schedulers=2, agents=2, processes=2), {})
    assert names(plan) == [
        *("postgresql", "epmd", "rabbitmq", "conductor-1", "scheduler-1", "scheduler-2", "compute-1", "compute-2"),
        "api-1",
    ]
    ports = [each.port for each in plan.processes]
    assert len(set(ports)) == len(ports)


def test_each_api_has_a_port_of_its_own_for_clients_and_the_first_is_the_address(folder):
    plan = ClusterPlan(folder, ClusterShape(apis=2, **GIVEN), {})
    plan.write_configuration()
    first, second = plan.processes[-2:]
    assert (first.name, second.name) == ("api-1", "api-2")
    assert len({first.port, first.client_port, second.port, second.client_port}) == 4
    assert plan.api_address == f"http://127.0.0.1:{first.client_port}"
    found = read(folder.config_of("api-2"))
    assert found["DEFAULT"]["osapi_compute_listen_port"] == str(second.client_port)
    assert found["roost"]["api_health_port"] == str(second.port)


def test_a_cluster_can_do_without_an_api(folder):
    plan = ClusterPlan(folder, ClusterShape(apis=0, **GIVEN), {})
    assert (names(plan)[-1], plan.api_address) == ("compute-1", "")


def test_given_servers_are_not_started(folder):
    plan = ClusterPlan(folder, ClusterShape(**GIVEN), {})
    assert names(plan)[0] == "conductor-1"
    plan.write_configuration()
    assert read(folder.config) == {
        "DEFAULT": {"transport_url": GIVEN["broker"]},
        "database": {"connection": GIVEN["database"]},
        "conductor": {"workers": "1"},
    }


def test_ports_and_passwords_stay_the_same_at_the_next_start(folder):
    first = ClusterPlan(folder, ClusterShape(), {})
    folder.save(first.processes, first.facts)
    second = ClusterPlan(folder, ClusterShape(schedulers=3), folder.facts())
    assert (second.database_url, second.broker_url) == (first.database_url, first.broker_url)
    assert {each.name: each.port for each in first.processes}.items() <= {
        each.name: each.port for each in second.processes
    }.items()


def test_fake_hosts_are_spread_over_the_processes(folder):
    shape = ClusterShape(agents=7, processes=3, apis=0, **GIVEN)
    assert list(shape.shares()) == [(1, 3), (4, 2), (6, 2)]
    plan = ClusterPlan(folder, shape, {})
    assert plan.processes[-1].command[-4:] == ("--fake-hosts", "2", "--first-number", "6")


def test_each_libvirt_daemon_has_an_agent(folder):
    plan = ClusterPlan(folder, ClusterShape(uris=("qemu:///one", "qemu:///two"), apis=0, **GIVEN), {})
    plan.write_configuration()
    assert names(plan)[-2:] == ["compute-1", "compute-2"]
    found = read(folder.config_of("compute-2"))
    assert found["libvirt"] == {"connection_uri": "qemu:///two"}
    assert found["DEFAULT"] == {"host": "compute-2", "compute_driver": "libvirt"}


def test_only_their_user_can_read_files_with_passwords(folder):
    plan = ClusterPlan(folder, ClusterShape(**GIVEN), {})
    plan.write_configuration()
    folder.save(plan.processes, plan.facts)
    for file in (folder.config, folder.path / "cluster.json", folder.config_of("conductor-1")):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_own_options_come_after_the_addresses_and_before_what_a_process_must_have(folder, tmp_path):
    own = tmp_path / "own.conf"
    own.touch()
    plan = ClusterPlan(folder, ClusterShape(config_files=(own,), **GIVEN), {})
    words = plan.processes[0].command
    files = [Path(words[at + 1]).name for at, word in enumerate(words) if word == "--config-file"]
    assert files == ["roost.conf", "own.conf", "conductor-1.conf"]


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"agents": 2, "processes": 3}, "2 agents cannot be spread over 3 processes"),
        ({"config_files": (Path("/no/such.conf"),)}, "/no/such.conf: there is no such file"),
    ],
)
def test_what_cannot_be_is_refused(wish, said):
    with pytest.raises(BadInput, match=said):
        ClusterShape(**wish)


@pytest.mark.parametrize(
    ("option", "url", "said"),
    [
        ("database", "nonsense", "--database is no address of a database"),
        ("database", "oracle://u:secret@h/n", "--database: 'oracle' is no kind of database"),
        ("database", "sqlite:////nowhere/roost.db", "there is no folder /nowhere"),
        ("broker", "nonsense", "--broker is no address of a broker"),
        ("broker", "rabbit://u:secret@h:port/", "--broker is no address of a broker"),
        ("broker", "in-process://", "--broker in-process:// reaches no other process"),
    ],
)
def test_an_address_that_cannot_be_is_told_by_the_name_of_its_argument(tmp_path, capsys, option, url, said):
    folder = tmp_path / "cluster"
    (folder / "data").mkdir(parents=True)
    (folder / "cluster.json").write_text('{"format": 1, "facts": {}, "processes": []}')
    assert main(["cluster", "start", "--fresh", "--state-dir", str(folder), f"--{option}", url]) in (2, 4)
    error = capsys.readouterr().err
    assert said in error
    assert "secret" not in error
    assert sorted(each.name for each in folder.iterdir()) == ["cluster.json", "data"]


@pytest.mark.parametrize("command", ["start", "stop", "status"])
def test_an_empty_path_is_not_the_present_folder(capsys, command):
    assert main(["cluster", command, "--state-dir", ""]) == 2
    assert "--state-dir: the path is empty" in capsys.readouterr().err


def test_a_folder_with_other_files_is_refused(tmp_path):
    (tmp_path / "thesis.odt").touch()
    with pytest.raises(BadInput, match=r"has other files, such as thesis.odt: .* \(choose an empty"):
        StateFolder(tmp_path).claim()


def test_a_path_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match="choose another --state-dir"):
        StateFolder(tmp_path / "file").claim()


def test_state_of_another_version_is_refused(folder):
    (folder.path / "cluster.json").write_text('{"format": 99}')
    with pytest.raises(BadInput, match="is not of this version of Roost"):
        folder.facts()


def test_the_state_of_a_user_is_below_the_folder_for_state(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert default_state_folder() == tmp_path / "roost/cluster"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert default_state_folder() == tmp_path / ".local/state/roost/cluster"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert default_state_folder() == tmp_path / ".local/state/roost/cluster"
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert default_state_folder() == Path("/var/lib/roost/cluster")
