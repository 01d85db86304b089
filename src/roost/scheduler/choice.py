# SPDX-License-Identifier: Apache-2.0
"""How one host is picked from the best: nova's two options, and the randomness they need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol


class Randomness(Protocol):
    """What is used of `random.Random`; handed in, so that a seed repeats a run."""

    def randrange(self, stop: int, /) -> int:
        """A whole number from 0 up to, and without, `stop`."""

    def shuffle(self, items: list[Any], /) -> None:
        """Put the items into random order, in place."""

    def getrandbits(self, bits: int, /) -> int:
        """A whole number of that many random bits."""


@dataclass(frozen=True)
class Choice:
    """Whether chance has a part in picking the host; by default the best one is picked."""

    host_subset_size: int = 1
    """Pick at random among so many of the best."""
    shuffles_best: bool = False
    """Put hosts that share the best weight into random order first."""


BEST = Choice()
"""The best host is picked, always."""
