# SPDX-License-Identifier: Apache-2.0
"""What can be asked about decisions, as JSON data: lists, and one of them with the state that it was made from."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from roost.decisions.store import DecisionStore
from roost.errors import FieldError, UnknownName
from roost.model.kinds import MOST

FILTERS = ("server", "request_id", "project_id", "placed", "before", "limit")
REQUEST_PREFIX = "req-"
_NUMBER = re.compile(r"[0-9]{1,18}")
USUAL_LIMIT = 100


class DecisionQueries:
    """Answers questions about the decisions in one database."""

    def __init__(self, store: DecisionStore, find_server: Callable[[str], str]) -> None:
        """`find_server`: the uuid of a server that is given by its name or uuid; UnknownName where there is none."""
        self._store, self._find_server = store, find_server

    def list_decisions(self, filters: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The decisions that match all filters, the latest first, without their records."""
        if not isinstance(filters, Mapping) or not set(filters) <= set(FILTERS):
            raise FieldError("filters", "has an unknown field", f"known: {', '.join(FILTERS)}")
        server = filters.get("server")
        found = self._store.list_decisions(
            server_uuid=None if server is None else self._find_server(str(server)),
            request_id=filters.get("request_id"),
            project_id=filters.get("project_id"),
            is_placed=filters.get("placed"),
            before=_whole_number(filters, "before"),
            limit=_whole_number(filters, "limit") or USUAL_LIMIT,
        )
        return [describe_listed(each) for each in found]

    def get_decision(self, decision: Any, with_state: bool = False) -> dict[str, Any]:
        """A decision by its id, by the id of its request, or the latest one about a server.

        `with_state`: also what is needed to restore the table that it saw; null where that is no longer kept.
        """
        record = self._store.get(self._find(str(decision)))
        found = {
            "id": record.id,
            "created_at": record.created_at.isoformat(timespec="seconds"),
            "request_id": record.request_id,
            "project_id": record.project_id,
            "data": record.data,
        }
        if with_state:
            state = self._store.read_state(record)
            found["state"] = None if state is None else state.to_json()
        return found

    def _find(self, wanted: str) -> int:
        """The id of the decision that is meant."""
        if _NUMBER.fullmatch(wanted):
            return int(wanted)
        if wanted.startswith(REQUEST_PREFIX):
            found = self._store.list_decisions(request_id=wanted, limit=1)
            what = f"request {wanted[:60]}"
        else:
            found = self._store.list_decisions(server_uuid=self._find_server(wanted), limit=1)
            what = f"server {wanted[:60]}"
        if not found:
            raise UnknownName(f"no decision is recorded for {what}", "old ones are removed; see roost decision list")
        return int(found[0].id)


def describe_listed(row: Any) -> dict[str, Any]:
    """A decision in a list, without its record."""
    return {
        "id": row.id,
        "created_at": row.created_at.isoformat(timespec="seconds"),
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
