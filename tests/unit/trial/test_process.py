# SPDX-License-Identifier: Apache-2.0
"""Processes that outlive the command that started them."""

import os
import signal
from dataclasses import replace

import pytest

from roost.clock import SystemClock
from roost.trial.process import ProcessPlan, Started, stop_processes

STUBBORN = "trap '' TERM; echo up; sleep 60"


@pytest.fixture
def plan(tmp_path):
    return ProcessPlan("sleeper", "compute", ("sleep", "60"), str(tmp_path / "sleeper.log"))


@pytest.fixture
def start():
    started = []

    def begin(plan):
        started.append(plan.start())
        return started[-1]

    yield begin
    for process in started:
        process.send(signal.SIGKILL)


def test_a_process_leads_a_session_of_its_own_and_writes_to_its_log(plan, start, tmp_path):
    process = start(replace(plan, command=("sh", "-c", "echo here; exec sleep 60")))
    assert process.is_alive()
    assert os.getsid(process.pid) == process.pid
    while not (tmp_path / "sleeper.log").read_text():
        pass
    assert (tmp_path / "sleeper.log").read_text() == "here\n"


def test_one_that_began_at_another_time_is_not_taken_for_it_and_gets_no_signal(plan, start):
    process = start(plan)
    other = Started(process.pid, "another boot 123")
    assert not other.is_alive()
    other.send(signal.SIGKILL)
    assert process.is_alive()


def test_one_that_ended_is_not_alive_and_may_be_stopped_again(plan, start):
    process = start(replace(plan, command=("true",)))
    assert stop_processes([(process, signal.SIGTERM)], SystemClock(), 5.0) == []
    assert not process.is_alive()
    assert stop_processes([(process, signal.SIGTERM)], SystemClock(), 5.0) == []


def test_one_that_ignores_its_signal_is_killed(plan, start, tmp_path):
    stubborn, obedient = start(replace(plan, command=("sh", "-c", STUBBORN))), start(plan)
    while not (tmp_path / "sleeper.log").read_text():
        pass
    stopping = [(stubborn, signal.SIGTERM), (obedient, signal.SIGTERM)]
    assert stop_processes(stopping, SystemClock(), 0.2) == [stubborn]
    assert not stubborn.is_alive()
    assert not obedient.is_alive()


def test_a_program_that_does_not_exist_is_an_error(plan):
    with pytest.raises(FileNotFoundError):
        replace(plan, command=("no-such-program",)).start()


def test_a_plan_survives_as_json(plan):
    full = replace(plan, port=1, ready_command=("true",), stop_signal=2, has_health_page=True)
    assert ProcessPlan.from_json(full.to_json()) == full


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({}, ""),
        ({"port": 1}, "it does not listen on port 1 yet"),
        ({"port": 1, "has_health_page": True}, "its health page does not answer"),
        ({"ready_command": ("true",)}, ""),
        ({"ready_command": ("false",)}, "it does not accept connections yet"),
    ],
)
def test_why_a_process_is_not_ready(plan, more, reason):
    assert replace(plan, **more).unready() == reason
