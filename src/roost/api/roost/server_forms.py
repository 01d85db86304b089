# SPDX-License-Identifier: Apache-2.0
"""The forms of answers about servers and plans, for OpenAPI, each with an example. Further keys may follow."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from roost.api.roost.forms import Link

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
