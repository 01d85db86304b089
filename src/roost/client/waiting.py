# SPDX-License-Identifier: Apache-2.0
"""Waits until changes of servers are complete, and says what became of each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from roost.client.interface import CommandClient, Record
from roost.clock import Clock
from roost.errors import ApiUnavailable, RpcTimeout, UnknownName

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.1, 2.0
"""Between two looks at the same server: more and more, as long builds need not be seen to the moment."""
MAX_SILENT_LOOKS = 6
"""Looks in a row without an answer, some seconds each, after which a wait ends: time to restart a conductor."""
OnProgress = Callable[[int, Record], None]
"""Called with the number of complete changes, and the server that is waited for."""
ACTIVE, SHUTOFF, PAUSED, VERIFY_RESIZE = "ACTIVE", "SHUTOFF", "PAUSED", "VERIFY_RESIZE"
SHELVED, ERROR, DELETED = "SHELVED_OFFLOADED", "ERROR", "DELETED"


@dataclass(frozen=True)
class Goal:
    """What a server is like when a change has succeeded."""

    statuses: Collection[str]
    leaves_host: bool = False
    """Whether it must be on another host than before."""
    is_deleted: bool = False
    """Whether it must be gone."""

    def is_reached(self, server: Mapping[str, Any], old_host: str | None) -> bool:
        """Whether a server that nothing is being done to is like that."""
        has_moved = not self.leaves_host or server.get("host") != old_host
        return server.get("status") in self.statuses and has_moved


BUILT = Goal((ACTIVE,))
STARTED = Goal((ACTIVE,))
STOPPED = Goal((SHUTOFF,))
RESIZED = Goal((VERIFY_RESIZE,))
SETTLED = Goal((ACTIVE, SHUTOFF))
MOVED = Goal((ACTIVE, SHUTOFF, PAUSED), leaves_host=True)
SHELVED_AWAY = Goal((SHELVED,))
GONE = Goal((DELETED,), is_deleted=True)


@dataclass(frozen=True)
class WaitOutcome:
    """What became of a server."""

    server: Record
    """As it was last seen."""
    problem: str = ""
    """Why the change failed; empty if it succeeded."""
    details: str = ""
    """Of the fault, for admins; may be empty."""


class ServerWait:
    """Looks at servers, through a clock, until nothing is being done to them."""

    def __init__(self, client: CommandClient, clock: Clock, timeout_seconds: float) -> None:
        self._client, self._clock, self._timeout = client, clock, timeout_seconds

    def until(
        self, goal: Goal, servers: Sequence[Record], on_progress: OnProgress = lambda done, server: None
    ) -> list[WaitOutcome]:
        """What became of each server. `servers`: as `get_server` had them before the change, with their faults."""
        give_up = self._clock.monotonic() + self._timeout
        outcomes: list[WaitOutcome] = []
        for server in servers:
            outcomes.append(self._see_through(goal, server, give_up, partial(on_progress, len(outcomes))))
        return outcomes

    def _see_through(
        self, goal: Goal, before: Record, give_up: float, on_progress: Callable[[Record], None]
    ) -> WaitOutcome:
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                server = self._look(before["id"])
            except UnknownName:
                gone = {**before, "status": DELETED, "task_state": None, "host": None}
                return WaitOutcome(gone, "" if goal.is_deleted else "it was deleted meanwhile")
            if server.get("task_state") is None:
                return _judge(goal, server, before)
            left = give_up - self._clock.monotonic()
            if left <= 0:
                state = f"{server.get('status')}, {server.get('task_state')}"
                return WaitOutcome(server, f"not complete after {self._timeout:g} seconds: {state}")
            on_progress(server)
            self._clock.sleep(min(pause, left))
            pause = min(pause * 1.5, LONGEST_PAUSE_SECONDS)

    def _look(self, uuid: str) -> Record:
        """The server as it is now; asked for again while conductors or the API are restarted."""
        for _ in range(MAX_SILENT_LOOKS - 1):
            try:
                return self._client.get_server(uuid)
            except RpcTimeout:
                continue  # it was waited for the answer
            except ApiUnavailable:
                self._clock.sleep(LONGEST_PAUSE_SECONDS)
        return self._client.get_server(uuid)


def _judge(goal: Goal, server: Record, before: Record) -> WaitOutcome:
    """What became of a server that nothing is being done to any more; `before`: as it was before the change."""
    if goal.is_reached(server, before.get("host")):
        return WaitOutcome(server)
    fault = server.get("fault") or {}
    if fault == before.get("fault"):  # it is that of an earlier change
        fault = {}
    where = f" on {server['host']}" if goal.leaves_host and server.get("host") else ""
    problem = fault.get("message") or f"it failed, and the server is {server.get('status')}{where}"
    return WaitOutcome(server, problem, fault.get("details") or "")
