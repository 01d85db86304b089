# SPDX-License-Identifier: Apache-2.0
"""Start, stop, restart and status, of processes that only sleep."""

import os
import signal
import socket
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from roost.clock import SystemClock
from roost.errors import BadInput, ProcessFailed
from roost.records.catalogue import read_flavors
from roost.store.engine import open_engine
from roost.store.options import DatabaseOptions
from roost.trial import cluster as control_module
from roost.trial.cluster import ClusterControl
from roost.trial.plan import ClusterShape
from roost.trial.private_servers import free_port
from roost.trial.process import ProcessPlan
from roost.trial.state import StateFolder


class Cluster:
    """A cluster in a folder, whose services are other commands."""

    def __init__(self, path):
        self.folder, self.told = StateFolder(path), []
        self.control = ClusterControl(self.folder, SystemClock(), self.told.append)
        self.shape = ClusterShape(
            1, 1, 1, 1, apis=0, database=f"sqlite:///{path.parent}/roost.db", broker="rabbit://"
        )

    def save(self, *commands):
        """Processes as they are after a start; the first is a conductor, the next a scheduler, ..."""
        self.folder.create()
        plans = [
            ProcessPlan(f"{kind}-1", kind, command, str(self.folder.log(kind)))
            for kind, command in zip(("conductor", "scheduler", "compute"), commands, strict=False)
        ]
        self.folder.save(plans, {})
        return [each.name for each in plans]

    def states(self):
        return [(each.name, each.state, not each.unready) for each in self.control.status()]

    def pid(self, name):
        return self.folder.started(name).process.pid


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path / "cluster")
    yield made
    if (made.folder.path / "cluster.json").exists():
        made.control.stop()


SLEEP = ("sleep", "60")


def test_processes_are_restarted_and_stopped_the_last_kind_first(cluster):
    names = cluster.save(SLEEP, SLEEP, SLEEP)
    assert cluster.states() == [(name, "stopped", False) for name in names]
    cluster.control.restart(names)
    assert cluster.states() == [(name, "running", True) for name in names]
    before = cluster.pid("scheduler-1")
    cluster.control.restart(["scheduler-1"])
    assert cluster.pid("scheduler-1") != before
    cluster.told.clear()
    assert cluster.control.stop() == 3
    assert cluster.told == ["compute-1: stopped", "scheduler-1: stopped", "conductor-1: stopped"]
    assert cluster.states() == [(name, "stopped", False) for name in names]
    assert cluster.control.stop() == 0


def test_one_that_was_killed_is_shown_and_can_be_restarted(cluster):
    cluster.control.restart(cluster.save(SLEEP, SLEEP))
    os.kill(cluster.pid("conductor-1"), signal.SIGKILL)
    while cluster.states()[0] != ("conductor-1", "died", False):
        pass
    assert cluster.states()[1] == ("scheduler-1", "running", True)
    cluster.control.restart(["conductor-1"])
    assert cluster.states()[0] == ("conductor-1", "running", True)


LEAVES_A_CHILD = ("sh", "-c", "sleep 60 & echo $! >&2; wait")


def child_of(cluster, name):
    """Pid of the child that the process has written to its log, once the process itself is killed."""
    kind, pid = name.partition("-")[0], cluster.pid(name)
    while not (child := cluster.folder.log(kind).read_text()).endswith("\n"):
        pass
    os.kill(pid, signal.SIGKILL)
    while cluster.control.status()[0].state != "died":
        pass
    return int(child.split()[-1])


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.parametrize("command", ["stop", "restart", "start"])
def test_what_a_killed_process_leaves_running_is_ended(cluster, services, command):
    cluster.control.restart(cluster.save(LEAVES_A_CHILD))
    child = child_of(cluster, "conductor-1")
    assert is_running(child)
    cluster.told.clear()
    run = {
        "stop": cluster.control.stop,
        "restart": lambda: cluster.control.restart(["conductor-1"]),
        "start": lambda: cluster.control.start(cluster.shape),
    }
    run[command]()
    assert not is_running(child)
    assert cluster.told[0].startswith("conductor-1: had ended, and left 1 process running")


def test_children_that_outlive_a_stopped_process_are_ended_too(cluster):
    cluster.control.restart(cluster.save(("sh", "-c", "sleep 60 & echo $! >&2; trap 'exit 0' TERM; wait")))
    while not (child := cluster.folder.log("conductor").read_text()).endswith("\n"):
        pass
    assert cluster.control.stop() == 1
    assert not is_running(int(child))


def test_a_second_start_is_refused_while_it_runs(cluster):
    cluster.control.restart(cluster.save(SLEEP, SLEEP))
    with pytest.raises(
        BadInput, match=r"is running: 2 processes, such as conductor-1 \(`roost cluster stop --state-dir /.*/cluster`"
    ):
        cluster.control.start(cluster.shape)
    assert [state for _, state, _ in cluster.states()] == ["running", "running"]


def test_two_commands_at_a_time_are_refused(cluster):
    cluster.save(SLEEP)
    with cluster.folder.locked(), pytest.raises(BadInput, match="another roost cluster command is at work"):
        cluster.control.stop()


def test_an_unknown_name_is_refused_with_the_nearest(cluster):
    cluster.save(SLEEP)
    with pytest.raises(BadInput, match=r"there is no process conductor1 \(did you mean conductor-1\?\)"):
        cluster.control.restart(["conductor1"])


def test_without_a_cluster_one_line_says_how_to_make_one(cluster):
    for command in (cluster.control.status, cluster.control.stop):
        with pytest.raises(
            BadInput, match=r"there is no cluster in .* \(`roost cluster start --state-dir /.*/cluster` makes one\)"
        ):
            command()


@pytest.fixture
def services(monkeypatch):
    """Commands in place of the services, by kind, which are never ready; all others sleep and are ready at once."""
    commands = {}
    make = control_module.ClusterPlan

    def of_kind(plan):
        is_ready = ("true",) if plan.kind not in commands else ("false",)
        words, port = commands.get(plan.kind, SLEEP), commands.get("port")
        ports = port, plan.client_port
        return ProcessPlan(plan.name, plan.kind, words, plan.log, *ports, ready_command=() if port else is_ready)

    def plan_with(folder, shape, facts):
        plan = make(folder, shape, facts)
        plan.processes = [of_kind(each) for each in plan.processes]
        return plan

    monkeypatch.setattr(control_module, "ClusterPlan", plan_with)
    return commands


def test_a_start_upgrades_the_database_and_waits_for_all(cluster, services):
    cluster.control.start(cluster.shape)
    assert cluster.told[0].startswith("database: upgraded to revision ")
    assert [line.partition(" after ")[0] for line in cluster.told[1:]] == [
        *("conductor-1: ready", "scheduler-1: ready", "compute-1: ready")
    ]
    cluster.control.stop()
    cluster.told.clear()
    cluster.control.start(cluster.shape)
    assert cluster.told[0] == "database: up to date"


def test_a_new_database_gets_flavors_and_one_that_exists_is_left_alone(cluster, services):
    cluster.control.start(cluster.shape)
    engine = open_engine(DatabaseOptions(connection=cluster.shape.database))
    names = [each.name for each in read_flavors(engine)]
    with engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM flavors")
    cluster.control.stop()
    cluster.control.start(cluster.shape)
    assert (names, read_flavors(engine)) == (["m1.tiny", "m1.small", "m1.medium", "m1.large"], [])
    engine.dispose()


def test_a_cluster_with_an_api_has_users_whose_passwords_only_its_folder_has(cluster, services):
    shape = replace(cluster.shape, apis=1)
    cluster.control.start(shape)
    file = cluster.folder.clouds_file
    first = file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    api = cluster.control.status()[-1]
    assert (api.name, f"auth_url: {api.address}/identity/v3\n" in first) == ("api-1", True)
    cluster.control.stop()
    file.unlink()
    cluster.told.clear()
    cluster.control.start(shape)  # in a database that may be that of others
    assert cluster.told[1] == "clouds.yaml: without admin, who is in the database already, with another password"
    assert file.read_text() == "clouds: {}\n"


def test_one_that_dies_at_its_start_is_told_with_its_last_words_and_the_others_are_stopped(cluster, services):
    services["scheduler"] = ("sh", "-c", "echo unknown option workrs >&2; exit 2")
    with pytest.raises(ProcessFailed, match=r"scheduler-1 ended at its start \(its log is .*scheduler-1.log\)"):
        cluster.control.start(cluster.shape)
    assert "scheduler-1: | unknown option workrs" in cluster.told
    assert "compute-1: stopped" in cluster.told
    assert [state for _, state, _ in cluster.states()] == ["stopped"] * 3


def test_one_that_does_not_become_ready_is_told_with_the_reason(cluster, services):
    services["port"] = free_port()
    with pytest.raises(ProcessFailed, match="is not ready after 0 s: it does not listen on port"):
        cluster.control.start(cluster.shape, seconds=0.1)


def test_a_port_that_is_taken_is_told_before_anything_starts(cluster, services):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        services["port"] = taken.getsockname()[1]
        with pytest.raises(BadInput, match=r"port \d+ of conductor-1 is taken by another program"):
            cluster.control.start(cluster.shape)
    assert not (cluster.folder.path / "cluster.json").exists()


def test_a_port_that_is_taken_is_told_before_anything_is_stopped(cluster):
    """D31: of two processes to restart, the port of one that had ended is taken."""
    names = cluster.save(SLEEP, SLEEP)
    cluster.control.restart(names[:1])
    with socket.create_server(("127.0.0.1", 0)) as taken:
        plans = cluster.folder.plans()
        cluster.folder.save([plans[0], replace(plans[1], port=taken.getsockname()[1])], {})
        with pytest.raises(BadInput, match=r"port \d+ of scheduler-1 is taken"):
            cluster.control.restart(names)
    assert [state for _, state, _ in cluster.states()] == ["running", "stopped"]


def test_a_folder_that_the_user_of_a_server_cannot_enter_is_told_before_data_are_deleted(cluster):
    """D31: an earlier cluster needed no PostgreSQL here."""
    cluster.save(SLEEP)
    cluster.folder.path.chmod(0o755)
    (cluster.folder.data / "precious").touch()
    with pytest.raises(BadInput, match="cannot enter"):
        cluster.control.start(replace(cluster.shape, database=""), is_fresh=True)
    assert (cluster.folder.data / "precious").exists()


def test_stale_pid_files_are_removed_and_told(cluster, services):
    cluster.control.restart(cluster.save(SLEEP))
    pid = cluster.pid("conductor-1")
    os.kill(pid, signal.SIGKILL)
    while cluster.states()[0][1] != "died":
        pass
    cluster.control.start(cluster.shape)
    assert cluster.told[1] == "conductor-1: its pid file is stale, it ended without being stopped"
    assert [state for _, state, _ in cluster.states()] == ["running"] * 3


def test_a_fresh_start_deletes_what_was_there(cluster, services):
    cluster.save(SLEEP)
    (cluster.folder.data / "old").touch()
    (cluster.folder.path / "cluster.json").write_text('{"format": 99}')
    with pytest.raises(BadInput, match=r"start once with `roost cluster start --fresh --state-dir /.*/cluster`"):
        cluster.control.start(cluster.shape)
    cluster.control.start(cluster.shape, is_fresh=True)
    assert not (cluster.folder.data / "old").exists()


@pytest.mark.parametrize("is_fresh", [False, True])
@pytest.mark.parametrize("file", ["data/p", "logs/mine.log", "letter", "cluster.json"])
def test_a_folder_of_something_else_is_refused_and_left_as_it_was(cluster, services, file, is_fresh):
    stranger = cluster.folder.path / file
    stranger.parent.mkdir(parents=True)
    stranger.write_text('{"mine": true}')
    before = sorted(cluster.folder.path.rglob("*"))
    with pytest.raises(BadInput, match=r"is not one of `roost cluster` \(choose an empty or new --state-dir\)"):
        cluster.control.start(cluster.shape, is_fresh=is_fresh)
    assert sorted(cluster.folder.path.rglob("*")) == before
    assert stranger.read_text() == '{"mine": true}'
    if file == "cluster.json":
        stranger.unlink()


def test_a_file_in_place_of_the_folder_is_told(cluster, services):
    cluster.folder.path.write_text("mine")
    with pytest.raises(BadInput, match="cluster is not a folder"):
        cluster.control.start(cluster.shape, is_fresh=True)


def test_a_fresh_start_that_is_refused_deletes_nothing(cluster, services):
    cluster.save(SLEEP)
    (cluster.folder.data / "old").touch()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        services["port"] = taken.getsockname()[1]
        with pytest.raises(BadInput, match="is taken by another program"):
            cluster.control.start(cluster.shape, is_fresh=True)
    assert (cluster.folder.data / "old").exists()


def test_what_cannot_be_deleted_is_told_and_the_folder_stays_one_of_a_cluster(cluster, services, tmp_path):
    cluster.save(SLEEP)
    cluster.folder.data.rmdir()
    (tmp_path / "elsewhere").mkdir()
    cluster.folder.data.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadInput, match="data cannot be deleted"):
        cluster.control.start(cluster.shape, is_fresh=True)
    assert (tmp_path / "elsewhere").exists()
    assert cluster.states() == [("conductor-1", "stopped", False)]


def test_a_start_that_was_refused_in_a_new_folder_can_be_repeated(cluster, services):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        services["port"] = taken.getsockname()[1]
        with pytest.raises(BadInput, match="is taken"):
            cluster.control.start(cluster.shape)
    del services["port"]
    cluster.control.start(cluster.shape)
    assert [state for _, state, _ in cluster.states()] == ["running"] * 3
