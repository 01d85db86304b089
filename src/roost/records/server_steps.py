# SPDX-License-Identifier: Apache-2.0
"""The life cycle of a server as one table, LIFE_CYCLE: every legal change of its state is a step of it.

A step is taken by `ServerStore.advance`, which refuses it from any other state. A second table, WORK, says who goes
on with the task of a server - a conductor, or the agent on one of its hosts - and by which message.

A message only wakes its receiver, which reads all it needs from the record of the server. So a message may be lost,
doubled or late: the janitor of a conductor sends it again, and the generation in it makes it count once.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from roost.errors import IllegalStep
from roost.records.server import (
    ACTIVE,
    BUILDING,
    DELETED,
    DELETING,
    ERROR,
    MIGRATING,
    PAUSED,
    POWERING_OFF,
    POWERING_ON,
    REBUILDING,
    RESIZE_CONFIRMING,
    RESIZE_FINISH,
    RESIZE_MIGRATED,
    RESIZE_MIGRATING,
    RESIZE_PREP,
    RESIZE_REVERTING,
    RESIZED,
    SCHEDULING,
    SHELVED_OFFLOADED,
    SHELVING,
    SPAWNING,
    STOPPED,
    TASK_STATES,
    UNSHELVING,
    VM_STATES,
    Server,
)

PREVIOUS = "previous"
"""In place of a vm_state: the one that the server had when the running task began."""
KEEP = "keep"
"""In place of a task_state: the present one."""
_IDLE = (None,)
_ALIVE = (ACTIVE, STOPPED)
_PLACED = (ACTIVE, STOPPED, PAUSED, ERROR)
_RESIZING = (RESIZE_PREP, RESIZE_MIGRATING, RESIZE_MIGRATED, RESIZE_FINISH)
_WAITING_FOR_HOST = (SCHEDULING, RESIZE_PREP, MIGRATING, REBUILDING, UNSHELVING)
_ANY = tuple(each for each in VM_STATES if each != DELETED)


@dataclass(frozen=True)
class Transition:
    """A legal change of a server's state. None as a new vm_state keeps the present one."""

    name: str
    vm_states: Collection[str]
    task_states: Collection[str | None]
    vm_state: str | None
    task_state: str | None

    def is_legal(self, vm_state: str | None, task_state: str | None) -> bool:
        """Whether a server in this state may take the step."""
        return vm_state in self.vm_states and task_state in self.task_states


LIFE_CYCLE: dict[str, Transition] = {
    step.name: step
    for step in (
        # name                        from vm_state       from task_state          to vm_state        to task_state
        Transition("assign", _ANY, _WAITING_FOR_HOST, None, KEEP),
        Transition("start build", (BUILDING,), (SCHEDULING,), BUILDING, SPAWNING),
        Transition("finish build", (BUILDING,), (SPAWNING,), ACTIVE, None),
        Transition("reschedule build", (BUILDING,), (SCHEDULING, SPAWNING), BUILDING, SCHEDULING),
        Transition("fail build", (BUILDING,), (SCHEDULING, SPAWNING), ERROR, None),
        Transition("delete", _ANY, (None, *TASK_STATES), None, DELETING),
        Transition("finish delete", _ANY, (DELETING,), DELETED, None),
        Transition("stop", (ACTIVE,), _IDLE, None, POWERING_OFF),
        Transition("finish stop", (ACTIVE,), (POWERING_OFF,), STOPPED, None),
        Transition("start", (STOPPED,), _IDLE, None, POWERING_ON),
        Transition("finish start", (STOPPED,), (POWERING_ON,), ACTIVE, None),
        Transition("fail power change", (ACTIVE, STOPPED), (POWERING_OFF, POWERING_ON), PREVIOUS, None),
        Transition("vanish", (ACTIVE, PAUSED), _IDLE, STOPPED, None),
        Transition("resize", _ALIVE, _IDLE, None, RESIZE_PREP),
        Transition("reschedule resize", _ALIVE, (RESIZE_PREP,), None, RESIZE_PREP),
        Transition("power off for resize", _ALIVE, (RESIZE_PREP,), None, RESIZE_MIGRATING),
        Transition("hand over resize", _ALIVE, (RESIZE_MIGRATING,), None, RESIZE_MIGRATED),
        Transition("start on target", _ALIVE, (RESIZE_MIGRATED,), None, RESIZE_FINISH),
        Transition("finish resize", _ALIVE, (RESIZE_FINISH,), RESIZED, None),
        Transition("undo resize", _ALIVE, _RESIZING, PREVIOUS, None),
        Transition("fail resize", _ALIVE, _RESIZING, ERROR, None),
        Transition("confirm resize", (RESIZED,), _IDLE, None, RESIZE_CONFIRMING),
        Transition("finish confirm", (RESIZED,), (RESIZE_CONFIRMING,), ACTIVE, None),
        Transition("finish confirm stopped", (RESIZED,), (RESIZE_CONFIRMING,), STOPPED, None),
        Transition("revert resize", (RESIZED,), _IDLE, None, RESIZE_REVERTING),
        Transition("leave target", (RESIZED,), (RESIZE_REVERTING,), None, RESIZE_REVERTING),
        Transition("finish revert", (RESIZED,), (RESIZE_REVERTING,), ACTIVE, None),
        Transition("finish revert stopped", (RESIZED,), (RESIZE_REVERTING,), STOPPED, None),
        Transition("undo revert", (RESIZED,), (RESIZE_REVERTING,), RESIZED, None),
        Transition("fail after resize", (RESIZED,), (RESIZE_CONFIRMING, RESIZE_REVERTING), ERROR, None),
        Transition("live-migrate", (ACTIVE, PAUSED), _IDLE, None, MIGRATING),
        Transition("finish live migration", (ACTIVE, PAUSED), (MIGRATING,), None, None),
        Transition("undo live migration", (ACTIVE, PAUSED), (MIGRATING,), PREVIOUS, None),
        Transition("fail live migration", (ACTIVE, PAUSED), (MIGRATING,), ERROR, None),
        Transition("rebuild", _PLACED, _IDLE, None, REBUILDING),
        Transition("finish rebuild", _PLACED, (REBUILDING,), ACTIVE, None),
        Transition("finish rebuild stopped", _PLACED, (REBUILDING,), STOPPED, None),
        Transition("undo rebuild", _PLACED, (REBUILDING,), PREVIOUS, None),
        Transition("fail rebuild", _PLACED, (REBUILDING,), ERROR, None),
        Transition("shelve", _ALIVE, _IDLE, None, SHELVING),
        Transition("finish shelve", _ALIVE, (SHELVING,), SHELVED_OFFLOADED, None),
        Transition("fail shelve", _ALIVE, (SHELVING,), PREVIOUS, None),
        Transition("unshelve", (SHELVED_OFFLOADED,), _IDLE, None, UNSHELVING),
        Transition("finish unshelve", (SHELVED_OFFLOADED,), (UNSHELVING,), ACTIVE, None),
        Transition("reset to active", _ANY, (None, *TASK_STATES), ACTIVE, None),
        Transition("reset to error", _ANY, (None, *TASK_STATES), ERROR, None),
        Transition("fail unshelve", (SHELVED_OFFLOADED,), (UNSHELVING,), SHELVED_OFFLOADED, None),
    )
}
"""Every legal change by its name. A server begins as building, with the task scheduling.

"assign" notes the host that was chosen, and keeps the task; "rebuild" is also an evacuation, which is a rebuild on
another host. An error keeps its host, if it has one, so that the server can be evacuated, rebuilt or deleted. The
resets are an administrator's, and end whatever is being done.
"""


def cannot_while(server: Server, verb: str) -> IllegalStep:
    """The refusal of an operation in the present state of a server, in nova's words. `verb`: nova's name for it."""
    kind, state = ("task_state", server.task_state) if server.task_state else ("vm_state", server.vm_state)
    return IllegalStep(f"Cannot '{verb}' instance {server.uuid} while it is in {kind} {state}")


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
