# SPDX-License-Identifier: Apache-2.0
"""Weigh and choose: from the hosts that passed to their order of preference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from roost.errors import PluginFailed, RoostError
from roost.hosts import Hosts
from roost.hosts.arrays import FloatArray, RowArray
from roost.model.decision import Ranked, Score
from roost.model.request import RequestSpec
from roost.weighers.base import Weigher, normalise

_FEW = 16


class Randomness(Protocol):
    """What is used of `random.Random`; handed in, so that a seed repeats a run."""

    def randrange(self, stop: int, /) -> int:
        """A whole number below `stop`."""

    def shuffle(self, items: list[Any], /) -> None:
        """Put into random order, in place."""

    def getrandbits(self, bits: int, /) -> int:
        """That many random bits."""


@dataclass(frozen=True)
class Part:
    """What one weigher contributed, per host."""

    name: str
    raw: FloatArray
    normalised: FloatArray
    multipliers: Any
    """One number for all hosts, or one per host."""


@dataclass(frozen=True)
class Weighed:
    """Hosts with their weights and where those came from."""

    hosts: Hosts
    weights: FloatArray
    parts: tuple[Part, ...]

    def ranked(self, position: int) -> Ranked:
        """One of the hosts with its weight and scores."""
        host, node = self.hosts.table.names[self.hosts.row_at(position)]
        scores = {}
        for part in self.parts:
            multiplier = part.multipliers
            if isinstance(multiplier, np.ndarray):
                multiplier = multiplier.item(position)
            if multiplier:
                scores[part.name] = Score(part.raw.item(position), part.normalised.item(position), multiplier)
        return Ranked(host, node, self.weights.item(position), scores)

    def best(self, count: int) -> RowArray:
        """Positions of the `count` best hosts, best first; equal weights keep the hosts' order."""
        if count <= _FEW:
            return self._few_best(count)
        return np.argsort(-self.weights, kind="stable")[:count]

    def _few_best(self, count: int) -> RowArray:
        """The maximum, then the next: for a handful that is many times faster than sorting."""
        left = self.weights.copy() if count > 1 else self.weights
        found: list[int] = []
        for _ in range(min(count, len(left))):
            position = int(left.argmax())
            if not np.isfinite(left[position]):  # somebody's weigher gave no proper number
                return np.argsort(-self.weights, kind="stable")[:count]
            found.append(position)
            if count > 1:
                left[position] = -np.inf
        return np.array(found, dtype=np.intp)


def weigh(hosts: Hosts, weighers: Sequence[Weigher], spec: RequestSpec) -> Weighed:
    """Sum of multiplier x normalised raw number, in the weighers' order. A single host is not weighed.

    Weighers that are switched off are not asked, and not part of the result.
    """
    weights = np.zeros(len(hosts))
    parts = []
    if len(hosts) > 1:
        for weigher in weighers:
            part = _ask(weigher, hosts, spec)
            if part is not None:
                weights += part.multipliers * part.normalised
                parts.append(part)
    return Weighed(hosts, weights, tuple(parts))


def _ask(weigher: Weigher, hosts: Hosts, spec: RequestSpec) -> Part | None:
    """What one weigher says; whatever is wrong with it is an error that names the weigher."""
    try:
        multipliers = weigher.multipliers(hosts)
        if weigher.is_off(multipliers):
            return None
        raw = weigher.clamped(hosts, spec)
        if raw.shape != (len(hosts),):
            raise ValueError(f"{raw.size} weights for {len(hosts)} hosts")
        return Part(weigher.name, raw, normalise(raw, weigher.minval, weigher.maxval), multipliers)
    except RoostError:
        raise
    except Exception as cause:
        raise PluginFailed(weigher.name, "", cause) from cause


@dataclass(frozen=True)
class Choice:
    """How one host is picked from the weighed ones: nova's two options."""

    host_subset_size: int = 1
    """Pick at random among so many of the best."""
    shuffles_best: bool = False
    """Put hosts that share the best weight into random order first."""


def prefer(weighed: Weighed, choice: Choice, depth: int, randomness: Randomness) -> RowArray:
    """Positions of (at least) the `depth` best hosts: the chosen one first, the others in order of weight."""
    everybody = len(weighed.weights)
    order = weighed.best(everybody if choice.shuffles_best else min(everybody, max(depth, choice.host_subset_size)))
    if choice.shuffles_best:
        tied = [int(at) for at in order if weighed.weights[at] == weighed.weights[order[0]]]
        randomness.shuffle(tied)
        order[: len(tied)] = tied
    if choice.host_subset_size > 1:
        pick = randomness.randrange(min(choice.host_subset_size, everybody))
        order[: pick + 1] = np.roll(order[: pick + 1], 1)
    return order
