# SPDX-License-Identifier: Apache-2.0
"""Waiting for a change: which fault is its own, and how long a silent conductor is borne with."""

import pytest
from tests.flow.cloud import TurnedClock

from roost.client.waiting import LONGEST_PAUSE_SECONDS, MAX_SILENT_LOOKS, MOVED, STOPPED, ServerWait
from roost.errors import ApiUnavailable, RpcTimeout

IDLE = {"id": "1", "name": "web", "status": "ACTIVE", "task_state": None, "host": "a", "fault": None}
OLD_FAULT = {"code": 500, "message": "no memory on b", "details": "of last week", "created": "2026-11-11T10:00:00Z"}


class Looks:
    """A client that answers each look with the next of these; the last one for ever."""

    def __init__(self, *answers):
        self.answers = list(answers)

    def get_server(self, server):
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def wait_for(goal, before, *answers):
    return ServerWait(Looks(*answers), TurnedClock(), 30).until(goal, [before])[0]


def test_a_conductor_that_is_restarted_does_not_end_the_wait():
    silent = [RpcTimeout("no answer")] * (MAX_SILENT_LOOKS - 1)
    assert wait_for(STOPPED, IDLE, *silent, IDLE | {"status": "SHUTOFF"}).problem == ""


def test_an_api_that_is_restarted_is_waited_for():
    away = [ApiUnavailable("connection refused")] * (MAX_SILENT_LOOKS - 1)
    clock = TurnedClock()
    begun = clock.monotonic()
    wait = ServerWait(Looks(*away, IDLE | {"status": "SHUTOFF"}), clock, 30)
    assert wait.until(STOPPED, [IDLE])[0].problem == ""
    assert clock.monotonic() - begun == len(away) * LONGEST_PAUSE_SECONDS


def test_a_conductor_that_stays_silent_ends_the_wait():
    with pytest.raises(RpcTimeout):
        wait_for(STOPPED, IDLE, RpcTimeout("no answer"))


@pytest.mark.parametrize("goal", [STOPPED, MOVED])
def test_a_fault_from_before_the_change_is_not_its_reason(goal):
    before = IDLE | {"fault": OLD_FAULT}
    outcome = wait_for(goal, before, dict(before))
    assert outcome.problem.startswith("it failed, and the server is ACTIVE")
    assert outcome.details == ""


def test_a_fault_that_came_with_the_change_is_its_reason():
    new = OLD_FAULT | {"created": "2026-11-18T10:00:00Z", "details": "of today"}
    outcome = wait_for(MOVED, IDLE | {"fault": OLD_FAULT}, IDLE | {"fault": new})
    assert (outcome.problem, outcome.details) == ("no memory on b", "of today")
