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
            "reasons": [{"stage": "capacity", "name": "ram", "subject": "ram", "hosts": 200, "hosts_in_all": 200}],
        }
    )

    fits: bool | None = None
    hosts: int | None = None
    fitting: int | None = None
    reasons: list[dict[str, Any]] | None = None
    blockers: list[dict[str, Any]] | None = None
    """Of one host: every check that rejects it."""
    remark: str | None = None
