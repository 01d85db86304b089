# SPDX-License-Identifier: Apache-2.0
"""Who goes on with the task of a server: a conductor, or the agent on one of its hosts; by which message.

A message only wakes its receiver, which reads all it needs from the record of the server. So a message may be lost,
doubled or late: the janitor of a conductor sends it again, and the generation in it makes it count once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from roost.servers.server import Server
from roost.servers.states import (
    DELETING,
    MIGRATING,
    POWERING_OFF,
    POWERING_ON,
    REBUILDING,
    RESIZE_CONFIRMING,
    RESIZE_FINISH,
    RESIZE_MIGRATED,
    RESIZE_MIGRATING,
    RESIZE_PREP,
    RESIZE_REVERTING,
    SCHEDULING,
    SHELVING,
    SPAWNING,
    UNSHELVING,
)

CONDUCTOR, HOST, TARGET, SOURCE = "conductor", "host", "target", "source"
"""Receivers: a conductor, or the agent on the server's host, on the chosen host, on the host that a move leaves."""
RESCHEDULE, UNDO, FAIL, FINISH = "reschedule", "undo", "fail", "finish"
"""What a conductor does for a host that is down: try another host, go back to the state before, give the server the
state error, or finish the task without the host, which cleans up when it is back."""


@dataclass(frozen=True)
class Work:
    """What is done next for servers with some task_state."""

    task_state: str
    has_target: bool | None
    """Whether a host has been chosen; None: it does not matter."""
    receiver: str
    method: str
    if_down: str | None = None
    """What a conductor does if the receiver's host is down; None: a conductor is the receiver."""


WORK = (
    # task_state, target chosen, receiver, method, if its host is down
    Work(SCHEDULING, False, CONDUCTOR, "build_instances"),
    Work(SCHEDULING, True, TARGET, "build_and_run_instance", RESCHEDULE),
    Work(SPAWNING, None, HOST, "build_and_run_instance", RESCHEDULE),
    Work(DELETING, None, HOST, "terminate_instance", FINISH),
    Work(POWERING_ON, None, HOST, "start_instance", UNDO),
    Work(POWERING_OFF, None, HOST, "stop_instance", UNDO),
    Work(RESIZE_PREP, False, CONDUCTOR, "migrate_server"),
    Work(RESIZE_PREP, True, TARGET, "prep_resize", RESCHEDULE),
    Work(RESIZE_MIGRATING, None, SOURCE, "resize_instance", FAIL),
    Work(RESIZE_MIGRATED, None, TARGET, "finish_resize", FAIL),
    Work(RESIZE_FINISH, None, TARGET, "finish_resize", FAIL),
    Work(RESIZE_CONFIRMING, None, SOURCE, "confirm_resize", FINISH),
    Work(RESIZE_REVERTING, True, TARGET, "revert_resize", FINISH),
    Work(RESIZE_REVERTING, False, SOURCE, "finish_revert_resize", FAIL),
    Work(MIGRATING, False, CONDUCTOR, "live_migrate_instance"),
    Work(MIGRATING, True, SOURCE, "live_migration", FAIL),
    Work(REBUILDING, False, CONDUCTOR, "rebuild_instance"),
    Work(REBUILDING, True, TARGET, "rebuild_instance", FAIL),
    Work(SHELVING, None, HOST, "shelve_instance", UNDO),
    Work(UNSHELVING, False, CONDUCTOR, "unshelve_instance"),
    Work(UNSHELVING, True, TARGET, "unshelve_instance", RESCHEDULE),
)
"""What is done next, by task_state. A deletion of a server that is on no host is a conductor's: `delete_unplaced`."""
AGENT_METHODS = frozenset(work.method for work in WORK if work.receiver != CONDUCTOR)
"""Names of the RPC methods of agents."""
DELETE_UNPLACED = Work(DELETING, None, CONDUCTOR, "delete_unplaced")


class NextWork(NamedTuple):
    """The receiver of the next message about a server, and what it has to do."""

    work: Work
    host: str | None
    """Host of the agent; None for a conductor."""


def next_work(server: Server) -> NextWork | None:
    """What has to be done next for a server; None if it has no task, or one that another program gave it."""
    has_target = server.task.target is not None
    of_task = (each for each in WORK if each.task_state == server.task_state)
    work = next((each for each in of_task if each.has_target in (None, has_target)), None)
    if work is None:
        return None
    source = server.task.source[0] if server.task.source else server.host
    target = server.task.target_host or server.host
    host = {CONDUCTOR: None, HOST: server.host, TARGET: target, SOURCE: source}[work.receiver]
    if work.task_state == DELETING and host is None:
        work = DELETE_UNPLACED
    return NextWork(work, host)
