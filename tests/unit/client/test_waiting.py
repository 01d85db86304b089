# SPDX-License-Identifier: Apache-2.0
"""Waiting for a change: which fault is its own, and how long a silent conductor is borne with."""

import pytest
from tests.flow.cloud import TurnedClock

from roost.client.waiting import MAX_SILENT_LOOKS, STOPPED, ServerWait
from roost.errors import RpcTimeout

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


def test_a_conductor_that_stays_silent_ends_the_wait():
    with pytest.raises(RpcTimeout):
        wait_for(STOPPED, IDLE, RpcTimeout("no answer"))
