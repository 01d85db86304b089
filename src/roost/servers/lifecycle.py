# SPDX-License-Identifier: Apache-2.0
"""The life cycle of a server as one table: every legal change of its state is a step of LIFE_CYCLE.

A step is taken by `ServerStore.advance`, which refuses it from any other state.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from roost.errors import IllegalStep
from roost.servers.server import Server
from roost.servers.states import (
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
class Step:
    """A legal change of a server's state. None as a new vm_state keeps the present one."""

    name: str
    vm_states: Collection[str]
    task_states: Collection[str | None]
    vm_state: str | None
    task_state: str | None

    def is_legal(self, vm_state: str | None, task_state: str | None) -> bool:
        """Whether a server in this state may take the step."""
        return vm_state in self.vm_states and task_state in self.task_states


LIFE_CYCLE: dict[str, Step] = {
    step.name: step
    for step in (
        # name                        from vm_state       from task_state          to vm_state        to task_state
        Step("assign", _ANY, _WAITING_FOR_HOST, None, KEEP),
        Step("start build", (BUILDING,), (SCHEDULING,), BUILDING, SPAWNING),
        Step("finish build", (BUILDING,), (SPAWNING,), ACTIVE, None),
        Step("reschedule build", (BUILDING,), (SCHEDULING, SPAWNING), BUILDING, SCHEDULING),
        Step("fail build", (BUILDING,), (SCHEDULING, SPAWNING), ERROR, None),
        Step("delete", _ANY, (None, *TASK_STATES), None, DELETING),
        Step("finish delete", _ANY, (DELETING,), DELETED, None),
        Step("stop", (ACTIVE,), _IDLE, None, POWERING_OFF),
        Step("finish stop", (ACTIVE,), (POWERING_OFF,), STOPPED, None),
        Step("start", (STOPPED,), _IDLE, None, POWERING_ON),
        Step("finish start", (STOPPED,), (POWERING_ON,), ACTIVE, None),
        Step("fail power change", (ACTIVE, STOPPED), (POWERING_OFF, POWERING_ON), PREVIOUS, None),
        Step("vanish", (ACTIVE, PAUSED), _IDLE, STOPPED, None),
        Step("resize", _ALIVE, _IDLE, None, RESIZE_PREP),
        Step("reschedule resize", _ALIVE, (RESIZE_PREP,), None, RESIZE_PREP),
        Step("power off for resize", _ALIVE, (RESIZE_PREP,), None, RESIZE_MIGRATING),
        Step("hand over resize", _ALIVE, (RESIZE_MIGRATING,), None, RESIZE_MIGRATED),
        Step("start on target", _ALIVE, (RESIZE_MIGRATED,), None, RESIZE_FINISH),
        Step("finish resize", _ALIVE, (RESIZE_FINISH,), RESIZED, None),
        Step("undo resize", _ALIVE, _RESIZING, PREVIOUS, None),
        Step("fail resize", _ALIVE, _RESIZING, ERROR, None),
        Step("confirm resize", (RESIZED,), _IDLE, None, RESIZE_CONFIRMING),
        Step("finish confirm", (RESIZED,), (RESIZE_CONFIRMING,), ACTIVE, None),
        Step("finish confirm stopped", (RESIZED,), (RESIZE_CONFIRMING,), STOPPED, None),
        Step("revert resize", (RESIZED,), _IDLE, None, RESIZE_REVERTING),
        Step("leave target", (RESIZED,), (RESIZE_REVERTING,), None, RESIZE_REVERTING),
        Step("finish revert", (RESIZED,), (RESIZE_REVERTING,), ACTIVE, None),
        Step("finish revert stopped", (RESIZED,), (RESIZE_REVERTING,), STOPPED, None),
        Step("undo revert", (RESIZED,), (RESIZE_REVERTING,), RESIZED, None),
        Step("fail after resize", (RESIZED,), (RESIZE_CONFIRMING, RESIZE_REVERTING), ERROR, None),
        Step("live-migrate", (ACTIVE, PAUSED), _IDLE, None, MIGRATING),
        Step("finish live migration", (ACTIVE, PAUSED), (MIGRATING,), None, None),
        Step("undo live migration", (ACTIVE, PAUSED), (MIGRATING,), PREVIOUS, None),
        Step("fail live migration", (ACTIVE, PAUSED), (MIGRATING,), ERROR, None),
        Step("rebuild", _PLACED, _IDLE, None, REBUILDING),
        Step("finish rebuild", _PLACED, (REBUILDING,), ACTIVE, None),
        Step("finish rebuild stopped", _PLACED, (REBUILDING,), STOPPED, None),
        Step("undo rebuild", _PLACED, (REBUILDING,), PREVIOUS, None),
        Step("fail rebuild", _PLACED, (REBUILDING,), ERROR, None),
        Step("shelve", _ALIVE, _IDLE, None, SHELVING),
        Step("finish shelve", _ALIVE, (SHELVING,), SHELVED_OFFLOADED, None),
        Step("fail shelve", _ALIVE, (SHELVING,), PREVIOUS, None),
        Step("unshelve", (SHELVED_OFFLOADED,), _IDLE, None, UNSHELVING),
        Step("finish unshelve", (SHELVED_OFFLOADED,), (UNSHELVING,), ACTIVE, None),
        Step("reset to active", _ANY, (None, *TASK_STATES), ACTIVE, None),
        Step("reset to error", _ANY, (None, *TASK_STATES), ERROR, None),
        Step("fail unshelve", (SHELVED_OFFLOADED,), (UNSHELVING,), SHELVED_OFFLOADED, None),
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
