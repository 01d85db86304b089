# SPDX-License-Identifier: Apache-2.0
"""Decisions of the schedulers as clients see them. For admins: hosts and reasons are theirs alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Engine

from roost.clock import Clock
from roost.conductor.parts import Record
from roost.conductor.request_names import RequestNames
from roost.decisions import DecisionStore
from roost.errors import BadInput, FieldError, UnknownName
from roost.rpc.context import RequestContext
from roost.rpc.interface import Method
from roost.servers.descriptions import time_text
from roost.store.store_clock import StoreClock
from roost.validation.kinds import MOST

_FILTERS = ("server", "request_id", "project_id", "placed", "before", "limit")
_NUMBER = re.compile(r"[0-9]{1,18}")
REQUEST_PREFIX = "req-"


class DecisionsView:
    """Lists and shows decisions, with the state that they were made from."""

    def __init__(self, engine: Engine, clock: Clock, names: RequestNames) -> None:
        self._store, self._names = DecisionStore(engine, StoreClock(engine, clock)), names
        self.methods: Mapping[str, Method] = {
            "list_decisions": self.list_decisions,
            "get_decision": self.get_decision,
        }

    def list_decisions(self, context: RequestContext, filters: Mapping[str, Any]) -> Record:
        """The decisions that match all filters, the latest first: {"decisions": [...]}, without their records."""
        _check_admin(context)
        if not isinstance(filters, Mapping) or not set(filters) <= set(_FILTERS):
            raise FieldError("filters", "has an unknown field", f"known: {', '.join(_FILTERS)}")
        server = filters.get("server")
        found = self._store.list_decisions(
            server_uuid=None if server is None else self._names.find_server(context, str(server)).uuid,
            request_id=filters.get("request_id"),
            project_id=filters.get("project_id"),
            is_placed=filters.get("placed"),
            before=_whole_number(filters, "before"),
            limit=_whole_number(filters, "limit") or 100,
        )
        return {"decisions": [_describe(each) for each in found]}

    def get_decision(self, context: RequestContext, decision: Any, with_state: bool = False) -> Record:
        """A decision by its id, by the id of its request, or the latest one about a server.

        `with_state`: also what is needed to restore the table that it saw; null where that is no longer kept.
        """
        _check_admin(context)
        record = self._store.get(self._find(context, str(decision)))
        found = {
            "id": record.id,
            "created_at": time_text(record.created_at),
            "request_id": record.request_id,
            "project_id": record.project_id,
            "data": record.data,
        }
        if with_state:
            state = self._store.read_state(record)
            found["state"] = None if state is None else state.to_json()
        return found

    def _find(self, context: RequestContext, wanted: str) -> int:
        """The id of the decision that is meant."""
        if _NUMBER.fullmatch(wanted):
            return int(wanted)
        if wanted.startswith(REQUEST_PREFIX):
            found = self._store.list_decisions(request_id=wanted, limit=1)
            what = f"request {wanted[:60]}"
        else:
            found = self._store.list_decisions(server_uuid=self._names.find_server(context, wanted).uuid, limit=1)
            what = f"server {wanted[:60]}"
        if not found:
            raise UnknownName(f"no decision is recorded for {what}", "old ones are removed; see roost decision list")
        return int(found[0].id)


def _describe(row: Any) -> Record:
    return {
        "id": row.id,
        "created_at": time_text(row.created_at),
        "request_id": row.request_id,
        "project_id": row.project_id,
        "placed": row.is_placed,
        "instances": row.wanted,
        "hosts": row.hosts,
        "summary": row.summary,
    }


def _whole_number(filters: Mapping[str, Any], name: str) -> int | None:
    value = filters.get(name)
    if value is not None and not (isinstance(value, int) and 0 < value <= MOST):
        raise FieldError(name, f"{str(value)[:60]!r} is no whole number above 0")
    return value


def _check_admin(context: RequestContext) -> None:
    if not context.is_admin:
        raise BadInput("only an admin may look at decisions", "ask as an admin")
