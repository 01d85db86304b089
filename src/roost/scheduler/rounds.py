# SPDX-License-Identifier: Apache-2.0
"""The second and every further instance of one request: only the host that the last one went to has changed.

What the plain way works out anew for each instance - who fits, every weigher's numbers, the weights, their order - is
kept here from round to round and patched for that one host. The choices are the same, to the bit: weights are sums in
the same order, and equal weights are settled as the plain way's stable sorting does, by the rounds before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from roost.filters.base import HostFilter
from roost.hosts import Hosts
from roost.hosts.arrays import FloatArray, RowArray
from roost.model.decision import Ranked, Score
from roost.model.request import RequestSpec
from roost.scheduler.checks import Check
from roost.scheduler.scoring import Choice, Weighed
from roost.weighers.base import HostWeigher, Weigher


def is_steady(weighed: Weighed) -> bool:
    """Proper numbers throughout, and more than one host: there is something to patch."""
    return len(weighed.parts) > 0 and bool(np.isfinite(weighed.weights).all())


def can_follow(filters: Iterable[object], weighers: Iterable[Weigher], choice: Choice, spec: RequestSpec) -> bool:
    """Whether a placement changes nothing but the host it went to, and leaves nothing to chance."""
    group = spec.instance_group
    return (
        choice == Choice()
        and spec.numa_topology is None
        and not spec.pci_requests
        and (group is None or (group.policy or "").startswith("soft-"))
        and not any(isinstance(each, HostFilter) for each in filters)
        and all(each.reads and not isinstance(each, HostWeigher) for each in weighers)
    )


class _Scale:
    """One weigher's raw numbers, the extremes they are spread between, and what they contribute."""

    def __init__(self, weigher: Weigher, raw: FloatArray, multipliers: FloatArray) -> None:
        self.weigher, self.name = weigher, weigher.name
        self.raw = raw
        self.multipliers = multipliers
        self._matters = bool(multipliers.any())
        self.low = self.high = 0.0
        self._at_low = self._at_high = 0
        """How many hosts are at an extreme: it moves when the last of them leaves."""
        self._look_for_extremes(raw)
        self.contribution = self._contribute()

    def _look_for_extremes(self, raw: FloatArray) -> None:
        """Among these numbers. Pinned ones never move."""
        if self.weigher.minval is None:
            self.low = float(raw.min())
            self._at_low = int(np.count_nonzero(raw == self.low))
        else:
            self.low = float(self.weigher.minval)
        if self.weigher.maxval is None:
            self.high = float(raw.max())
            self._at_high = int(np.count_nonzero(raw == self.high))
        else:
            self.high = float(self.weigher.maxval)

    def _contribute(self) -> FloatArray:
        if self.low == self.high or not self._matters:
            return np.zeros(len(self.raw))
        return self.multipliers * ((self.raw - self.low) / (self.high - self.low))

    def score(self, position: int) -> Score:
        """What it says of one host."""
        raw = self.raw.item(position)
        normalised = 0.0 if self.low == self.high else (raw - self.low) / (self.high - self.low)
        return Score(raw, normalised, self.multipliers.item(position))

    def patch(self, position: int, number: float, alive: RowArray | None) -> bool:
        """One host's number changed; tells whether that moved an extreme, and so every host's contribution."""
        before = self.raw.item(position)
        self.raw[position] = number
        extremes = self.low, self.high
        self._leave(before)
        self._enter(number)
        if self._settle(extremes, alive):
            return True
        self.contribution[position] = self.score(position).contribution
        return False

    def drop(self, position: int, alive: RowArray | None) -> bool:
        """One host fell out; tells whether that moved an extreme. `alive`: those who are left."""
        extremes = self.low, self.high
        self._leave(self.raw.item(position))
        return self._settle(extremes, alive)

    def _leave(self, number: float) -> None:
        self._at_low -= number == self.low
        self._at_high -= number == self.high

    def _enter(self, number: float) -> None:
        if number < self.low and self.weigher.minval is None:
            self.low, self._at_low = number, 0
        if number > self.high and self.weigher.maxval is None:
            self.high, self._at_high = number, 0
        self._at_low += number == self.low
        self._at_high += number == self.high

    def _settle(self, extremes: tuple[float, float], alive: RowArray | None) -> bool:
        """Look anew where the last host at an extreme has left; contribute anew where one moved and it matters."""
        low_is_open = self.weigher.minval is None and self._at_low == 0
        high_is_open = self.weigher.maxval is None and self._at_high == 0
        if low_is_open or high_is_open:
            self._look_for_extremes(self.raw if alive is None else self.raw[alive])
        if extremes == (self.low, self.high) or not self._matters:
            return False
        self.contribution = self._contribute()
        return True


_PENDING_BYTES = 128 << 20
"""Weights of past rounds are kept up to this size before their order is worked out."""


Event = tuple[int, float] | FloatArray
"""What a round did to the weights: one position has another, or all are new."""


class Rounds:
    """The hosts that passed for the first instance, best first, and all that is known of them."""

    def __init__(self, weighed: Weighed, weighers: Sequence[Weigher], order: RowArray) -> None:
        self.hosts = weighed.hosts.take(order)
        self.weights = weighed.weights[order]
        self.scales = [
            _Scale(weigher, part.raw[order], np.broadcast_to(part.multipliers, (len(part.raw),))[order])
            for weigher, part in zip(weighers, weighed.parts, strict=True)
        ]
        self.left = len(self.hosts)
        self._is_alive = np.ones(len(self.hosts), dtype=np.bool_)
        self._alive: RowArray | None = None
        """Positions of those who are left, once somebody fell out."""
        self._touched = np.zeros(len(self.hosts), dtype=np.bool_)
        self._order = np.arange(len(self.hosts))
        """Positions, best first, as of the last round that is not pending."""
        self._ordered_by = self.weights.copy()
        self._pending: list[Event] = []
        """How the weights changed in the rounds since then: what settles ties, should one come up."""
        self._latest: Event | None = None
        self._checks: list[Check] = []
        self._stale: list[_Scale] = []

    def one(self, position: int) -> Hosts:
        """The host at this position, alone."""
        return Hosts(self.hosts.table, np.array([self.hosts.row_at(position)]), {})

    def expect(self, changed: frozenset[str], checks: Iterable[Check]) -> None:
        """Every placement changes these columns: what they decide is asked again in every round, all else is not."""
        self._checks = [check for check in checks if check.ask is not None and check.depends_on(changed)]
        self._stale = [scale for scale in self.scales if scale.weigher.reads & changed]

    def recheck(self, position: int) -> Check | None:
        """The first question that the host of the last instance now answers with no; it is out then."""
        one = self.one(position)
        for check in self._checks:
            if check.ask is not None and not check.ask(one)[0]:
                self.left -= 1
                self._is_alive[position] = False
                self._alive = np.flatnonzero(self._is_alive)
                return check
        return None

    def reweigh(self, position: int, spec: RequestSpec) -> None:
        """Weigh again after the host at this position changed, or fell out."""
        self._remember(position)
        if not self._is_alive[position]:
            moved = [scale.drop(position, self._alive) for scale in self.scales]
            self._add_up() if any(moved) else self._set(position, -np.inf)
            return
        one = self.one(position)
        moved = [
            scale.patch(position, scale.weigher.clamped(one, spec).item(0), self._alive) for scale in self._stale
        ]
        if any(moved):
            self._add_up()
        else:
            self._set(position, sum(scale.contribution.item(position) for scale in self.scales))

    def _set(self, position: int, weight: float) -> None:
        self.weights[position] = weight
        self._latest = position, weight

    def _add_up(self) -> None:
        """The same sum, in the same order, as the plain way's; those who are out come last."""
        self.weights = np.zeros(len(self.weights))
        for scale in self.scales:
            if scale.low != scale.high:
                self.weights += scale.contribution
        if self._alive is not None:
            self.weights[~self._is_alive] = -np.inf
        self._latest = self.weights.copy()

    def _remember(self, position: int) -> None:
        """The round before this one is over."""
        self._touched[position] = True
        if self._latest is not None:
            self._pending.append(self._latest)
        if len(self._pending) * self.weights.nbytes > _PENDING_BYTES:
            self._sort()

    def _sort(self) -> None:
        """Order by each pending round's weights in turn, as the plain way's stable sorting did."""
        weights = self._ordered_by
        for event in self._pending:
            if isinstance(event, tuple):
                weights[event[0]] = event[1]
            else:
                weights = event
            self._order = self._order[np.argsort(-weights[self._order], kind="stable")]
        self._ordered_by = weights
        self._pending.clear()

    def best(self) -> int:
        """Position of the host with the best weight; of several, the one that came first in the round before."""
        top = self.weights.max()
        tied = np.flatnonzero(self.weights == top)
        if len(tied) == 1 or self._are_alike(tied):
            return int(tied[0])
        self._sort()
        rank = np.empty(len(self._order), dtype=np.intp)
        rank[self._order] = np.arange(len(self._order))
        return int(tied[rank[tied].argmin()])

    def _are_alike(self, positions: RowArray) -> bool:
        """Hosts that were never chosen and have the same numbers had the same weight in every round."""
        if self._touched[positions].any():
            return False
        first = positions[0]
        return all(
            (scale.raw[positions] == scale.raw[first]).all()
            and (scale.multipliers[positions] == scale.multipliers[first]).all()
            for scale in self.scales
        )

    def ranked(self, position: int) -> Ranked:
        """One host with its weight and scores; where it is the only one left, nobody was weighed."""
        host, node = self.hosts.table.names[self.hosts.row_at(position)]
        if self.left == 1:
            return Ranked(host, node, 0.0, {})
        scores = {scale.name: scale.score(position) for scale in self.scales}
        return Ranked(host, node, self.weights.item(position), scores)

    def in_order(self) -> Hosts:
        """Those who are left, in the order of the last round."""
        if self._latest is not None:
            self._pending.append(self._latest)
        self._sort()
        return self.hosts.take(self._order[: self.left])
