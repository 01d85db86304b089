# SPDX-License-Identifier: Apache-2.0
"""The compute service on a host, as the scheduler sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from roost.validation.kinds import OrNull
from roost.validation.records import Checked
from roost.validation.vocabulary import FLAG, NUMBER, Flag, OptionalText


@dataclass(frozen=True)
class Service(Checked):
    """Whether the agent on a host may and can take work."""

    disabled: Flag = False
    disabled_reason: OptionalText = None
    forced_down: Flag = False
    up: Annotated[bool | None, OrNull(FLAG)] = None
    """Whether the agent is alive, where that is known outright."""
    seconds_since_seen: Annotated[float | None, OrNull(NUMBER)] = None
    """Age of the last heartbeat, where that is what is known; negative for a clock ahead of ours."""

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
