# SPDX-License-Identifier: Apache-2.0
"""The status of a server in nova's API, which follows from vm_state and task_state: in Python and in SQL."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import ColumnElement, or_

from roost.servers.states import (
    ACTIVE,
    BUILDING,
    DELETED,
    ERROR,
    MIGRATING,
    PAUSED,
    REBUILDING,
    RESIZE_FINISH,
    RESIZE_MIGRATED,
    RESIZE_MIGRATING,
    RESIZE_PREP,
    RESIZE_REVERTING,
    RESIZED,
    SHELVED_OFFLOADED,
    STOPPED,
)
from roost.store.schema import servers

UNKNOWN = "UNKNOWN"
_RESIZING = dict.fromkeys((RESIZE_PREP, RESIZE_MIGRATING, RESIZE_MIGRATED, RESIZE_FINISH), "RESIZE")
STATUS_TABLE: dict[str, tuple[str, dict[str, str]]] = {
    # vm_state: (status, task_state -> another status)
    BUILDING: ("BUILD", {}),
    ACTIVE: ("ACTIVE", {**_RESIZING, REBUILDING: "REBUILD", MIGRATING: "MIGRATING"}),
    STOPPED: ("SHUTOFF", {**_RESIZING, REBUILDING: "REBUILD"}),
    PAUSED: ("PAUSED", {MIGRATING: "MIGRATING"}),
    RESIZED: ("VERIFY_RESIZE", {RESIZE_REVERTING: "REVERT_RESIZE"}),
    ERROR: ("ERROR", {REBUILDING: "REBUILD"}),
    DELETED: ("DELETED", {}),
    SHELVED_OFFLOADED: ("SHELVED_OFFLOADED", {}),
}
"""Status by vm_state, and those task_states that give it another one."""
STATUSES = frozenset({UNKNOWN}.union(*({usual, *by_task.values()} for usual, by_task in STATUS_TABLE.values())))
"""All that a server can be."""
STATUSES_WITH_FAULT = ("ERROR", "DELETED")
"""In these clients are told the latest fault of a server."""


def status_of(vm_state: str | None, task_state: str | None) -> str:
    """The status of a server in nova's API; UNKNOWN for a state that it does not know."""
    usual, by_task = STATUS_TABLE.get(vm_state or "", (UNKNOWN, {}))
    return by_task.get(task_state or "", usual)


def has_status(wanted: Collection[str]) -> ColumnElement[bool]:
    """The condition that a server has one of these statuses; no server has one that does not exist."""
    vm_state, task_state = servers.c.vm_state, servers.c.task_state
    cases: list[ColumnElement[bool]] = []
    for state, (usual, by_task) in STATUS_TABLE.items():
        is_other = task_state.in_(sorted(by_task))
        if usual in wanted:
            cases.append((vm_state == state) & (task_state.is_(None) | ~is_other))
        named = sorted(task for task, status in by_task.items() if status in wanted)
        if named:
            cases.append((vm_state == state) & task_state.in_(named))
    if UNKNOWN in wanted:
        cases.append(vm_state.is_(None) | vm_state.not_in(sorted(STATUS_TABLE)))
    return or_(*cases) if cases else vm_state.in_(())
