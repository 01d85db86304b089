# SPDX-License-Identifier: Apache-2.0
"""The state of the compute service on a host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from roost.validation.kinds import OrNull
from roost.validation.records import Checked
from roost.validation.vocabulary import FLAG, NUMBER, Flag, OptionalText


@dataclass(frozen=True)
class Service(Checked):
    """State of a host's compute service: disabled, forced down, and its heartbeat."""

    disabled: Flag = False
    disabled_reason: OptionalText = None
    forced_down: Flag = False
    up: Annotated[bool | None, OrNull(FLAG)] = None
    """Whether the service is up, if reported directly; None if it follows from the heartbeat."""
    seconds_since_seen: Annotated[float | None, OrNull(NUMBER)] = None
    """Age of the last heartbeat in seconds; negative if the host's clock is ahead. None if unknown."""

    def is_up(self, down_after_seconds: float) -> bool:
        """Whether it is not forced down, and its heartbeat is at most `down_after_seconds` old or ahead."""
        if self.forced_down:
            return False
        if self.up is not None:
            return self.up
        return self.seconds_since_seen is None or abs(self.seconds_since_seen) <= down_after_seconds

    def as_record(self, is_up: bool) -> dict[str, Any]:
        """The mapping that filters of nova read as `host_state.service`."""
        return {
            "disabled": self.disabled,
            "disabled_reason": self.disabled_reason,
            "forced_down": self.forced_down,
            "up": is_up,
        }
