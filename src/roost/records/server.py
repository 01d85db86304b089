# SPDX-License-Identifier: Apache-2.0
"""A server as the store has it, with its faults, migrations, states and status.

States have nova's words: vm_state is what a server is, task_state what is being done to it. The status in nova's API
follows from the two: in Python and in SQL.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Self

from sqlalchemy import ColumnElement, or_

from roost.messages.objects.request import (
    flavor_and_image_from_object,
    hints_and_zone_from_object,
    request_from_object,
)
from roost.messages.objects.selections import SelectedHost, selection_from_object
from roost.model import Flavor, Image, RequestSpec
from roost.store.schema.servers import servers

BUILD, RESIZE, MIGRATION, LIVE_MIGRATION, EVACUATION = "build", "resize", "migration", "live-migration", "evacuation"
REBUILD, UNSHELVE = "rebuild", "unshelve"
"""What a task wants a host for. RESIZE, MIGRATION, LIVE_MIGRATION and EVACUATION are nova's migration types."""

_LONGEST_LABEL = 63
"""Of a host name without a domain."""


class Attempt(NamedTuple):
    """A host on which a task failed, and why."""

    host: str
    node: str
    reason: str


@dataclass(frozen=True)
class TaskData:
    """What the running task of a server needs, so that any process can go on with it."""

    action: str = ""
    """BUILD, RESIZE and so on; empty for tasks that need no host."""
    vm_state: str | None = None
    """What the server was when the task began."""
    target: Mapping[str, Any] | None = None
    """The chosen host as a Selection object of nova's; None until a host is chosen."""
    alternates: tuple[Mapping[str, Any], ...] = ()
    """Selection objects to try when the target fails."""
    attempts: tuple[Attempt, ...] = ()
    """Where the task failed, in order."""
    batch: tuple[str, ...] = ()
    """Uuids of the servers that are scheduled together, all or none."""
    destination: str | None = None
    """The host that the caller named for a move; None: any."""
    is_forced: bool = False
    """Whether the named destination is taken without asking the scheduler."""
    source: tuple[str, str] | None = None
    """Host and node that a move leaves."""
    migration_uuid: str | None = None
    flavor: Mapping[str, Any] | None = None
    """The Flavor object, as nova's, that a resize leads to."""
    old_flavor: Mapping[str, Any] | None = None
    """The Flavor object that a revert goes back to."""
    image: Mapping[str, Any] | None = None
    """The ImageMeta object that a rebuild puts on the server; None: the same as before."""
    availability_zone: str | None = None
    last_host: str | None = None
    """The host where a deleted server was: its guest may be left there if the host was down."""
    request_id: str = ""
    project_id: str = ""
    user_id: str = ""

    @property
    def selection(self) -> SelectedHost:
        """The chosen host. ValueError without one."""
        if self.target is None:
            raise ValueError("no host is chosen")
        return selection_from_object(self.target)

    @property
    def target_host(self) -> str | None:
        """Name of the chosen host; None until one is chosen."""
        return None if self.target is None else self.selection.host

    @property
    def tried(self) -> tuple[tuple[str, str], ...]:
        """(host, node) pairs on which the task failed."""
        return tuple((each.host, each.node) for each in self.attempts)

    def to_json(self) -> dict[str, Any]:
        """The fields that have a value, as JSON data."""
        return {name: value for name, value in vars(self).items() if value not in (None, "", (), False)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any] | None) -> Self:
        """What `to_json` wrote; fields of newer versions are ignored."""
        values = {name: value for name, value in (data or {}).items() if name in cls.__dataclass_fields__}
        for name in ("alternates", "batch"):
            values[name] = tuple(values.get(name, ()))
        values["attempts"] = tuple(Attempt(*each) for each in values.get("attempts", ()))
        if "source" in values:
            values["source"] = tuple(values["source"])
        return cls(**values)


@dataclass(frozen=True)
class Server:
    """A server as it was read. `generation` says which version of its record this is: see `ServerStore.advance`."""

    uuid: str
    name: str
    vm_state: str | None
    task_state: str | None = None
    generation: int = 0
    host: str | None = None
    node: str | None = None
    availability_zone: str | None = None
    project_id: str | None = None
    user_id: str | None = None
    power_state: str | None = None
    request_spec: Mapping[str, Any] | None = field(default=None, repr=False)
    """The RequestSpec object, as nova's, with the present flavor and image; None for an imported server."""
    task: TaskData = field(default_factory=TaskData)
    image_id: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    launched_at: datetime | None = None
    deleted_at: datetime | None = None
    description: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    """What a client attached; no rule reads it."""
    reservation_id: str | None = None
    """Of the request that made it, and perhaps others with it."""
    launch_index: int | None = None
    """Which of the servers of its request, counted from 0."""
    hostname: str | None = None
    """By which its guest is to know itself; None for an imported server."""
    access_ip_v4: str | None = None
    """An address at which a client says that it is reached, as `access_ip_v6`; no rule reads it."""
    access_ip_v6: str | None = None
    disk_config: str | None = None
    """AUTO or MANUAL; None: nothing was said."""

    @property
    def spec(self) -> RequestSpec:
        """The request by which it is placed. ValueError for an imported server, which has none."""
        if self.request_spec is None:
            raise ValueError(f"server {self.uuid} was imported, and has no request")
        return request_from_object(self.request_spec).for_instance(self.uuid)

    @property
    def flavor_and_image(self) -> tuple[Flavor | None, Image | None]:
        """What it is made of; two times None for an imported server, which has no request."""
        return (None, None) if self.request_spec is None else flavor_and_image_from_object(self.request_spec)

    @property
    def hints_and_zone(self) -> tuple[Mapping[str, tuple[str, ...]], str | None]:
        """The scheduler hints by which it is placed, and the zone that it stays in; none of an imported server."""
        return ({}, None) if self.request_spec is None else hints_and_zone_from_object(self.request_spec)

    @property
    def is_busy(self) -> bool:
        """Whether something is being done to it."""
        return self.task_state is not None


def hostname_of(name: str) -> str:
    """A host name made of the name of a server: letters, digits and hyphens; "server" where it has none of them."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    label = re.sub(r"[^a-z0-9-]", "", re.sub(r"[\s_.]", "-", plain))
    return label.strip("-")[:_LONGEST_LABEL].rstrip("-") or "server"


@dataclass(frozen=True)
class Fault:
    """Why something failed: the message in nova's words, for users; the details are for admins."""

    message: str
    details: str = ""
    code: int = 500
    host: str | None = None
    created_at: datetime | None = None


@dataclass(frozen=True)
class Migration:
    """A move of a server: nova's types and statuses."""

    uuid: str
    server_uuid: str
    migration_type: str
    status: str
    source_compute: str | None = None
    source_node: str | None = None
    dest_compute: str | None = None
    dest_node: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    old_flavor: Mapping[str, Any] | None = None
    """What the server was made of before, and after it `new_flavor`: sizes, names and the flavor's id."""
    new_flavor: Mapping[str, Any] | None = None
    id: int | None = None
    """Number of the record, counting up; None before it is written."""
    project_id: str | None = None
    """Of the server, as `user_id`; None once its record is removed."""
    user_id: str | None = None


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
