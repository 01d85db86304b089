# SPDX-License-Identifier: Apache-2.0
"""The compute service on a host, as the scheduler sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from roost.model import checks


@dataclass(frozen=True)
class Service:
    """Whether the agent on a host may and can take work."""

    disabled: bool = False
    disabled_reason: str | None = None
    forced_down: bool = False
    up: bool | None = None
    """Whether the agent is alive, where that is known outright."""
    seconds_since_seen: float | None = None
    """Age of the last heartbeat, where that is what is known; negative for a clock ahead of ours."""

    def __post_init__(self) -> None:
        checks.flag(self.disabled, "disabled")
        checks.flag(self.forced_down, "forced_down")
        checks.optional_text(self.disabled_reason, "disabled_reason")
        if self.up is not None:
            checks.flag(self.up, "up")
        if self.seconds_since_seen is not None:
            checks.number(self.seconds_since_seen, "seconds_since_seen")

    def is_up(self, down_after_seconds: float) -> bool:
        """Alive: not forced down, and heard of no longer ago than that, in either direction of time."""
        if self.forced_down:
            return False
        if self.up is not None:
            return self.up
        return self.seconds_since_seen is None or abs(self.seconds_since_seen) <= down_after_seconds

    def as_record(self, is_up: bool) -> dict[str, Any]:
        """The mapping that nova's filters know as `host_state.service`."""
        return {
            "disabled": self.disabled,
            "disabled_reason": self.disabled_reason,
            "forced_down": self.forced_down,
            "up": is_up,
        }
