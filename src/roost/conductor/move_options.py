# SPDX-License-Identifier: Apache-2.0
"""Options of moves, by nova's names."""

from __future__ import annotations

from dataclasses import dataclass

from roost.options.declare import option


@dataclass(frozen=True)
class ResizeOptions:
    """Where a server may go with another flavor."""

    allow_resize_to_same_host: bool = option(
        False, group="DEFAULT", help="whether a resized server may stay on its host"
    )


@dataclass(frozen=True)
class MoveOptions:
    """What moves need of the options of several groups."""

    may_stay: bool = False
    """[DEFAULT] allow_resize_to_same_host."""
    most_attempts: int = 3
    """[scheduler] max_attempts: hosts that are tried for a resize, a cold migration or an unshelving."""
    most_retries: int = -1
    """[DEFAULT] migrate_max_retries: hosts after the first that are tried for a live migration; -1: all."""
