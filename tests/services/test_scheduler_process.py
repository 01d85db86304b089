# SPDX-License-Identifier: Apache-2.0
"""`roost service scheduler` as an operator meets it: readiness, reload, workers, and what it says if it cannot."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from tests.services.load import SPEC, Load, check_books
from tests.services.stack import ROOST

from roost.cli.main import main
from roost.messages.context import RequestContext
from roost.messages.objects.request import request_to_object


def wait_for(is_so, seconds=20):
    give_up = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < give_up, "waited in vain"
        time.sleep(0.05)


def ask(stack, number):
    uuid = f"6a0b7c1e-5ef2-4a3e-9d7b-0c9b8f7a1e{number:02}"
    return stack.client().select_destinations(RequestContext.new(f"req-{number}"), SPEC, [uuid], return_objects=True)


def test_ready_answering_reloading_and_gone(make_stack):
    stack = make_stack()
    (scheduler,) = stack.schedulers
    assert scheduler.get("/healthz")[0] == 200
    assert json.loads(scheduler.get("/readyz")[1]) == {"ready": True, "reasons": []}
    ((chosen,),) = ask(stack, 1)
    wait_for(lambda: " decided " in scheduler.log.read_text())  # it is written after the answer
    (line,) = [each for each in scheduler.log.read_text().splitlines() if "decided" in each]
    assert "[req-1]" in line
    assert f"1 of 1 placed on {chosen.host}" in line
    assert 'roost_decisions_total{result="placed"} 1.0' in scheduler.get("/metrics")[1]

    config = stack.folder / "scheduler1.conf"
    config.write_text(config.read_text() + "[filter_scheduler]\nenabled_filters = NoSuchFilter\n")
    scheduler.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "unknown filter NoSuchFilter" in scheduler.log.read_text())
    ask(stack, 2)

    config.write_text(config.read_text().replace("NoSuchFilter", "ComputeFilter").replace("nova", "other"))
    config.write_text(config.read_text() + "[scheduler]\nworkers = 3\n")
    scheduler.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "[scheduler] workers" in scheduler.log.read_text())
    told = scheduler.log.read_text()
    assert 'option="[filter_scheduler] enabled_filters" result="taken up"' in told
    assert 'option="[scheduler] workers" result="changes with a restart"' in told
    ask(stack, 3)
    assert scheduler.stop() == 0


def test_workers_share_the_work_and_one_that_dies_is_replaced(make_stack):
    stack = make_stack(config="[scheduler]\nworkers = 2\n[DEFAULT]")
    (parent,) = stack.schedulers
    with Load(stack) as load:
        load.wait_for_answers(20)
        (first, _) = children(parent.process.pid)
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: first not in children(parent.process.pid) and len(children(parent.process.pid)) == 2)
        load.wait_for_answers(20)
        parent.wait_until_ready()
        total = 'roost_decisions_total{result="placed"} '
        wait_for(lambda: count(parent, total) > 20)
    check_books(stack, load.outcomes)
    folder = metrics_folder(children(parent.process.pid)[0])
    assert folder.is_dir()
    parent.process.kill()
    parent.process.wait()
    wait_for(lambda: not any(is_running(each) for each in load_children(parent)))
    assert not folder.exists()


QUORUM = "rabbit_quorum_queue = true\nrabbit_transient_quorum_queue = true\nuse_queue_manager = true\n"


def test_with_queues_named_after_processes_every_worker_gets_a_fanout_cast(make_stack, tmp_path):
    locks = f"[oslo_concurrency]\nlock_path = {tmp_path}/locks\n"
    config = f"scheduler_topic = quorum\n[scheduler]\nworkers = 2\n[oslo_messaging_rabbit]\n{QUORUM}{locks}"
    stack = make_stack(schedulers=2, config=config)
    client, uuid = stack.client(scheduler_topic="quorum"), "6a0b7c1e-5ef2-4a3e-9d7b-0c9b8f7a1e01"
    ((chosen,),) = client.select_destinations(RequestContext.new("req-1"), SPEC, [uuid], return_objects=True)
    client.delete_instance_info(RequestContext.new("req-2"), chosen.host, uuid)
    heard = 'roost_rpc_requests_total{method="delete_instance_info",result="ok"} '
    for parent in stack.schedulers:
        wait_for(lambda parent=parent: count(parent, heard) == 2)


SLOW = """
import pathlib, time
from roost.filters.base import HostFilter

class SlowFilter(HostFilter):
    def host_passes(self, host, spec):
        pathlib.Path(__file__).with_name("asked").touch()
        time.sleep(60)
"""


def test_a_second_signal_ends_it_whatever_a_request_does(make_stack):
    chosen = "available_filters = slow.SlowFilter\nenabled_filters = SlowFilter\n"
    stack = make_stack(schedulers=0, config=f"[filter_scheduler]\n{chosen}")
    (stack.folder / "slow.py").write_text(SLOW)
    stack.add_schedulers(1)
    (scheduler,) = stack.schedulers
    spec = {"spec_obj": request_to_object(SPEC)}
    stack.transport.cast("scheduler", "select_destinations", "4.5", spec, RequestContext.new("req-1"))
    wait_for((stack.folder / "asked").exists)
    scheduler.process.send_signal(signal.SIGTERM)
    wait_for(lambda: "stopping" in scheduler.log.read_text())
    scheduler.process.send_signal(signal.SIGTERM)
    assert scheduler.process.wait(timeout=10) == 0
    assert "running requests are given up" in scheduler.log.read_text()


def count(scheduler, name):
    lines = scheduler.get("/metrics")[1].splitlines()
    return sum(float(line.removeprefix(name)) for line in lines if line.startswith(name))


def children(pid):
    out = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False).stdout
    return [int(each) for each in out.split()]


def metrics_folder(worker):
    words = Path(f"/proc/{worker}/cmdline").read_bytes().decode().split("\0")
    return Path(words[words.index("--metrics-folder") + 1])


def load_children(parent):
    """Workers of a parent that is gone: orphans, found by the path of its config file."""
    out = subprocess.run(["pgrep", "-f", str(parent.log.parent)], capture_output=True, text=True, check=False).stdout
    return [int(each) for each in out.split()]


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    ("config", "code", "said"),
    [
        ("", 2, "[database] connection is not set"),
        ("[database]\nconnection = sqlite:////nowhere/at/all.db\n", 4, "there is no folder"),
        ("[scheduler]\ndriver = fastest\n[database]\nconnection = {good}\n", 2, "unknown driver fastest"),
        (
            "[scheduler]\ndriver = fastest\nworkers = 2\n[database]\nconnection = {good}\n",
            2,
            "unknown driver fastest",
        ),
        ("[scheduler]\nworkrs = 1\n", 2, "did you mean workers"),
        ("[DEFAULT]\ntransport_url = carrier-pigeon://\n[database]\nconnection = {good}\n", 2, "transport_url"),
        ("[roost]\nhealth_address = 203.0.113.7\n[database]\nconnection = {good}\n", 2, "health_address"),
    ],
)
def test_what_cannot_run_says_so_in_a_line(tmp_path, config, code, said):
    good = f"sqlite:///{tmp_path}/good.db"
    file = tmp_path / "roost.conf"
    file.write_text(config.format(good=good))
    assert main(["db", "upgrade", "--connection", good]) == 0
    done = subprocess.run(
        [*ROOST, "service", "scheduler", "--config-file", str(file)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == code, done.stderr
    assert said in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_tables_of_another_version_are_refused(tmp_path):
    (tmp_path / "empty.db").touch()
    file = tmp_path / "roost.conf"
    file.write_text(f"[database]\nconnection = sqlite:///{tmp_path}/empty.db\n[roost]\nhealth_port = -1\n")
    done = subprocess.run(
        [*ROOST, "service", "scheduler", "--config-file", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 4
    assert "roost db upgrade" in done.stderr.splitlines()[-1]
