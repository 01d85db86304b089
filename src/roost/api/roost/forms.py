# SPDX-License-Identifier: Apache-2.0
"""The forms of Roost's own answers, for OpenAPI, each with an example. Further keys may follow."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


def _form(example: dict[str, Any]) -> ConfigDict:
    return ConfigDict(extra="allow", json_schema_extra={"examples": [example]})


class Link(BaseModel):
    """An address that goes on from here."""

    rel: str
    href: str


_LISTED = {
    "id": 41,
    "created_at": "2026-11-02T09:12:07+00:00",
    "request_id": "req-6f1a0c52-9d0e-4d9c-8f55-1a3b1f0c7e21",
    "project_id": "4f7c0b1e9a3d4c5e8f60718293a4b5c6",
    "placed": True,
    "instances": 1,
    "hosts": 200,
    "summary": "1 of 1 placed on node-017",
}


class ListedDecision(BaseModel):
    """A decision in a list. `hosts`, how many were looked at, is for administrators and readers of the system."""

    model_config = _form(_LISTED)

    id: int
    created_at: str
    request_id: str | None
    project_id: str | None
    placed: bool
    instances: int
    """How many were asked for."""
    summary: str
    """Where they went, or why no host fits; for members nova's words."""
    hosts: int | None = None


class Decisions(BaseModel):
    """A page of decisions, the latest first."""

    model_config = _form({"decisions": [_LISTED]})

    decisions: list[ListedDecision]
    decisions_links: list[Link] | None = None
    """Where the next page is, if this one is full."""


class Decision(BaseModel):
    """A decision as it was recorded. Members get what a list has of it."""

    model_config = _form(
        {name: _LISTED[name] for name in ("id", "created_at", "request_id", "project_id")}
        | {"data": {"hosts": 200, "wanted": 1, "failed_at": None, "steps": [["capacity", "ram", 200, 180, ""]]}}
    )

    id: int
    created_at: str
    request_id: str | None
    project_id: str | None
    data: dict[str, Any] | None = None
    """Request, steps, scores and choices, as `roost decision show -f json` prints them."""


class Why(BaseModel):
    """Why a decision came out as it did, as `roost decision why -f json` prints it; with `host`, why not there.

    Where the state of that moment is no longer kept: what was recorded, with a remark.
    """

    model_config = _form(
        {
            "fits": False,
            "hosts": 200,
            "wanted": 1,
            "placed": 0,
            "fitting": 0,
            "reasons": [
                {"stage": "capacity", "name": "ram", "subject": "ram"}
                | {"hosts": 200, "hosts_in_all": 200, "hosts_of_subject": 200}
            ],
        }
    )

    fits: bool | None = None
    hosts: int | None = None
    fitting: int | None = None
    reasons: list[dict[str, Any]] | None = None
    blockers: list[dict[str, Any]] | None = None
    """Of one host: every check that rejects it."""
    remark: str | None = None


_CAPACITY = {
    "flavor": "m1.small",
    "fits": 2320,
    "is_complete": True,
    "hosts": 200,
    "hosts_used": 190,
    "shortages": [{"stage": "capacity", "name": "ram", "hosts": 190, "ran_out_on": 190, "detail": "needs 2048 MiB"}],
    "by": "availability_zone",
    "groups": [{"name": "zone-a", "hosts": 200, "fits": 2320, "hosts_used": 190, "shortages": []}],
    "placed": [{"host": "node-001", "node": "node-001", "fits": 12}],
}


class FlavorCapacity(BaseModel):
    """How many more servers of a flavor fit, counted by placing them; `error` where its request is not possible."""

    model_config = _form(_CAPACITY)

    flavor: str
    error: str | None = None
    fits: int | None = None
    is_complete: bool | None = None
    """False where counting stopped at its limit."""
    hosts: int | None = None
    hosts_used: int | None = None
    shortages: list[dict[str, Any]] | None = None
    """What the hosts lack in the end."""
    groups: list[dict[str, Any]] | None = None
    """By zone, or another key of aggregates."""
    placed: list[dict[str, Any]] | None = None
    """How many on each host."""
    worst_loss: dict[str, Any] | None = None


class Capacity(BaseModel):
    """The capacity of one flavor, or a page of all by name, as `roost capacity -f json` prints it."""

    model_config = _form({"capacity": [_CAPACITY]})

    capacity: list[FlavorCapacity]
    capacity_links: list[Link] | None = None
    """Where the next page is, if there are more flavors."""


_HOST = {
    "id": "2f0d4c2a-5b1e-4b7e-8a51-0c4a5d1e7b11",
    "host": "node-001",
    "node": "node-001",
    "state": "up",
    "status": "disabled",
    "disabled_reason": "new memory on Friday",
    "forced_down": False,
    "availability_zone": "zone-a",
    "servers": 3,
    "vcpus": 32,
    "vcpus_used": 6,
    "memory_mb": 131072,
    "memory_mb_used": 12288,
    "disk_gb": 1000,
    "disk_gb_used": 60,
    "hypervisor_type": "QEMU",
    "updated_at": "2026-11-02T09:12:07+00:00",
    "vcpus_free": 122,
    "memory_mb_free": 118784,
    "disk_gb_free": 940,
}


class Host(BaseModel):
    """A host as `roost host show -f json` prints it, with what servers can still get of it."""

    model_config = _form(_HOST)

    id: str
    """Uuid of the node."""
    host: str
    node: str
    state: str
    status: str
    disabled_reason: str | None
    forced_down: bool
    availability_zone: str | None
    servers: int
    vcpus: int
    vcpus_used: int
    memory_mb: int
    memory_mb_used: int
    disk_gb: int
    disk_gb_used: int
    hypervisor_type: str | None
    updated_at: str | None
    vcpus_free: int
    """With the allocation ratio, without what is reserved; so are the next two."""
    memory_mb_free: int
    disk_gb_free: int


class Hosts(BaseModel):
    """A page of hosts, by name."""

    model_config = _form({"hosts": [_HOST]})

    hosts: list[Host]
    hosts_links: list[Link] | None = None


class Plan(BaseModel):
    """Where servers would go. Of one server `plan` has the steps, of several `requests` what was decided of each."""

    model_config = _form(
        {
            "fits": True,
            "plan": [
                {
                    "name": "web",
                    "action": "create",
                    "host": "node-017",
                    "summary": "1 of 1 placed on node-017",
                }
            ],
        }
    )

    fits: bool
    plan: list[dict[str, Any]] | None = None
    """Hosts and summaries are for administrators."""
    summary: str | None = None
    """Why no host fits; for members nova's words."""
    requests: list[dict[str, Any]] | None = None
    """As `roost plan -f json` prints them."""


_SERVER: dict[str, Any] = {
    "id": "0d1e7c52-4a43-4f0c-9a6e-2f1b6a7b8c90",
    "name": "web",
    "status": "ACTIVE",
    "host": "node-017",
    "flavor": {"id": "1", "name": "small"},
    "fault": None,
    "attempts": [],
    "migrations": [],
}
_STEP: dict[str, Any] = {
    "server": "0d1e7c52-4a43-4f0c-9a6e-2f1b6a7b8c90",
    "name": "web",
    "action": "resize",
    "host": "node-018",
    "summary": "1 of 1 placed on node-018",
}


class Server(BaseModel):
    """A server. Host, node, attempts, migrations and details of its fault are for administrators."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"examples": [_SERVER]})

    id: str
    name: str
    status: str
    host: str | None = None
    flavor: dict[str, Any] | None = None
    image: dict[str, Any] | None = None
    fault: dict[str, Any] | None = None
    attempts: list[Any] | None = None
    """Hosts that were tried in vain."""
    migrations: list[dict[str, Any]] | None = None


class Servers(BaseModel):
    """A page of servers, by uuid."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"examples": [{"servers": [_SERVER]}]})

    servers: list[Server]
    servers_links: list[Link] | None = None
    """Where the next page is, if this one is full."""


class ActionPlan(BaseModel):
    """What a change would do."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"examples": [{"fits": True, "plan": [_STEP]}]})

    fits: bool
    plan: list[dict[str, Any]]
    summary: str | None = None
    """Why no host fits; for members nova's words."""
