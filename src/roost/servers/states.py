# SPDX-License-Identifier: Apache-2.0
"""States of servers, by nova's words: vm_state is what a server is, task_state what is being done to it."""

from __future__ import annotations

BUILDING, ACTIVE, STOPPED, PAUSED = "building", "active", "stopped", "paused"
RESIZED, ERROR, DELETED, SHELVED_OFFLOADED = "resized", "error", "deleted", "shelved_offloaded"
VM_STATES = (BUILDING, ACTIVE, STOPPED, PAUSED, RESIZED, ERROR, DELETED, SHELVED_OFFLOADED)

SCHEDULING, SPAWNING, DELETING = "scheduling", "spawning", "deleting"
POWERING_ON, POWERING_OFF = "powering-on", "powering-off"
RESIZE_PREP, RESIZE_MIGRATING, RESIZE_MIGRATED = "resize_prep", "resize_migrating", "resize_migrated"
RESIZE_FINISH, RESIZE_CONFIRMING, RESIZE_REVERTING = "resize_finish", "resize_confirming", "resize_reverting"
MIGRATING, REBUILDING, SHELVING, UNSHELVING = "migrating", "rebuilding", "shelving", "unshelving"
TASK_STATES = (
    *(SCHEDULING, SPAWNING, DELETING, POWERING_ON, POWERING_OFF),
    *(RESIZE_PREP, RESIZE_MIGRATING, RESIZE_MIGRATED, RESIZE_FINISH, RESIZE_CONFIRMING, RESIZE_REVERTING),
    *(MIGRATING, REBUILDING, SHELVING, UNSHELVING),
)

RUNNING, SHUTDOWN, NO_STATE = "running", "shutdown", "nostate"
POWER_STATES = (RUNNING, SHUTDOWN, NO_STATE)
"""What the hypervisor says of a guest."""
