# SPDX-License-Identifier: Apache-2.0
"""Handlers that start and stop a server on its host."""

from __future__ import annotations

from collections.abc import Callable

from roost.compute.agent_parts import AgentParts, Task
from roost.records.server import RUNNING, SHUTDOWN


class PowerHandlers:
    """Start and stop servers on the host of an agent."""

    def __init__(self, parts: AgentParts) -> None:
        self._parts = parts
        self.methods = {"start_instance": self.start, "stop_instance": self.stop}

    def start(self, task: Task) -> None:
        """Start the guest; the server is active then, or stopped with a fault."""
        self._change(task, self._parts.driver.power_on, "finish start", RUNNING, "started")

    def stop(self, task: Task) -> None:
        """Stop the guest; the server is stopped then, or active with a fault."""
        self._change(task, self._parts.driver.power_off, "finish stop", SHUTDOWN, "stopped")

    def _change(self, task: Task, operate: Callable[[str], None], step: str, power_state: str, done: str) -> None:
        parts, server = self._parts, task.server
        try:
            operate(server.uuid)
        except Exception as error:
            fault = parts.fault(f"The server could not be {done}", error)
            parts.note(parts.store.advance(server, "fail power change", fault=fault))
            return
        parts.note(parts.store.advance(server, step, power_state=power_state))
