# SPDX-License-Identifier: Apache-2.0
"""Decisions of the schedulers as clients see them. For admins: hosts and reasons are theirs alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Engine

from roost.clock import Clock
from roost.conductor.names import RequestNames
from roost.conductor.parts import Record
from roost.errors import BadInput
from roost.messages.context import RequestContext
from roost.messages.interface import Method
from roost.records.decisions import DecisionQueries, DecisionStore
from roost.store.store_clock import StoreClock


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
        return {"decisions": self._queries(context).list_decisions(filters)}

    def get_decision(self, context: RequestContext, decision: Any, with_state: bool = False) -> Record:
        """A decision by its id, by the id of its request, or the latest one about a server."""
        return self._queries(context).get_decision(decision, with_state)

    def _queries(self, context: RequestContext) -> DecisionQueries:
        if not context.is_admin:
            raise BadInput("only an admin may look at decisions", "ask as an admin")
        return DecisionQueries(self._store, lambda name: self._names.find_server(context, name).uuid)
