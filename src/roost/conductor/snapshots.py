# SPDX-License-Identifier: Apache-2.0
"""Snapshots of the cloud, for admins."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping

from sqlalchemy import Engine

from roost.clock import Clock
from roost.conductor.parts import Record
from roost.errors import BadInput
from roost.messages.context import RequestContext
from roost.messages.interface import Method
from roost.options.files import Sections
from roost.records.snapshot_taking import take_snapshot
from roost.store.store_clock import StoreClock


class Snapshots:
    """Answers `get_snapshot`."""

    def __init__(self, engine: Engine, clock: Clock, configured: Sections) -> None:
        """`configured`: the options by which a scheduler decides, where none has recorded its own."""
        self._engine, self._times, self._configured = engine, StoreClock(engine, clock), configured
        self.methods: Mapping[str, Method] = {"get_snapshot": self.get_snapshot}

    def get_snapshot(self, context: RequestContext) -> Record:
        """The content of a snapshot file, as base64: {"snapshot": text}."""
        if not context.is_admin:
            raise BadInput("only an admin may take a snapshot", "ask as an admin")
        return {"snapshot": b64encode(take_snapshot(self._engine, self._times, self._configured).to_bytes()).decode()}
