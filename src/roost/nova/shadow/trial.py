# SPDX-License-Identifier: Apache-2.0
"""A decision that was made and given back: what it was, how long it took, and the review of all hosts.

The granter claims nothing: it reads what another one reads, and writes nothing. A review says what Roost thought of
every host at that moment: its weight, or why it was rejected. It is made before it is known which host the live
scheduler chose, and kept until then; the table has moved on by that time. So it holds arrays, and texts for a bounded
number of hosts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import numpy as np

from roost.errors import RoostError
from roost.hosts import HostTable
from roost.hosts.encoded import FloatArray, RowArray
from roost.hosts.record import Pair
from roost.ledger.claim import Claim, GroupPlaces, HeldNode, MemberHosts
from roost.ledger.operations import Move
from roost.model import Decision, RequestSpec
from roost.model.resources import AllocationCandidates
from roost.scheduler.checks import Check
from roost.scheduler.claiming import Chooser
from roost.scheduler.full_scan import weigh
from roost.scheduler.pipeline import Pipeline
from roost.scheduler.rounds import Granter
from roost.scheduler.search import Randomness, Rules


class DryGranter:
    """A `Granter` that grants every claim without making it."""

    def __init__(self, granter: Granter) -> None:
        """`granter`: that of the cloud; only its reads are used."""
        self._granter = granter

    @property
    def has_candidates(self) -> bool:
        """Whether the cloud's granter can tell of room that the replica does not show."""
        return self._granter.has_candidates

    def find_candidates(self, spec: RequestSpec, table: HostTable, is_last_look: bool) -> AllocationCandidates | None:
        """What can be allocated for a request, as the cloud's granter says; None where the replica tells that."""
        return self._granter.find_candidates(spec, table, is_last_look)

    def reread(self, node_uuids: Collection[str]) -> None:
        """Have the next refresh of the replica find what is allocated on these nodes now."""
        self._granter.reread(node_uuids)

    def expect(self, claims: Sequence[Claim]) -> None:
        """Nothing will be claimed."""

    def claim(self, claims: Sequence[Claim]) -> None:
        """Nothing is claimed."""

    def claim_and_move(self, claims: Sequence[Claim], moves: Sequence[Move]) -> None:
        """Nothing is claimed, and nothing moved."""

    def note_answered(self, consumers: Sequence[str]) -> None:
        """Nothing was claimed for them."""

    def read_holdings(self, consumers: Sequence[str]) -> dict[str, dict[str, HeldNode]]:
        """Consumer uuid -> node uuid -> what it holds there, as the cloud's granter says."""
        return self._granter.read_holdings(consumers)

    def has_allocations(self, consumer: str) -> bool:
        """Whether a consumer holds anything now, as the cloud's granter says."""
        return self._granter.has_allocations(consumer)

    def read_group_places(self, group_uuid: str) -> GroupPlaces:
        """Members of a server group, and the hosts from which migrations of members move away."""
        return self._granter.read_group_places(group_uuid)

    def read_member_hosts(self, group_uuid: str) -> MemberHosts:
        """Policy of a server group, and the members and migrations that have a place on each host."""
        return self._granter.read_member_hosts(group_uuid)

    def release_on(
        self,
        consumers: Sequence[str],
        node_uuids: Collection[str],
        made_before: datetime | None = None,
        left_host: str = "",
    ) -> int:
        """Nothing is released: 0."""
        return 0


MOST_REASONS = 100
"""Rejected hosts for which the reason is kept in words; of further ones, the check that rejected them."""
MOST_TIES = 1000
"""Hosts of the best weight that a record names."""
_TOLERANCE = 1e-9
"""Weights that differ by less are equal: two schedulers may add the same numbers in another order."""


class _Loss(NamedTuple):
    """The hosts that one check rejected."""

    check: str
    rows: RowArray
    reasons: Sequence[str]
    """For the first of the rows."""


class HostReview:
    """The hosts of a request with their weights, and those that were rejected."""

    def __init__(
        self, names: Sequence[Pair], rows: RowArray, weights: FloatArray, losses: Sequence[_Loss] = ()
    ) -> None:
        """`names`: all rows of the table, sorted. `rows`, `weights`: those that passed every check."""
        self._names, self._rows, self._weights, self._losses = names, rows, weights, losses

    @classmethod
    def of(cls, rules: Rules, table: HostTable, spec: RequestSpec) -> HostReview:
        """Put all checks to all hosts and weigh those that are left; the table must not change meanwhile."""
        hosts, losses, budget = table.in_the_running(), [], MOST_REASONS
        for check in rules.checks(table, spec, index=0):
            if not len(hosts):
                break
            hosts, rejected = check.split(hosts)
            if len(rejected):
                reasons = [check.reason(host) for host, _ in zip(rejected, range(budget), strict=False)]
                losses.append(_Loss(_name_of(check), rejected.rows, reasons))
                budget -= len(reasons)
        return cls(table.names, hosts.rows, weigh(hosts, rules.weighers, spec).weights, losses)

    def weight_of(self, host: str) -> float | None:
        """The best weight of a host's nodes; None where it was rejected, or is not known."""
        weights = self._weights[np.isin(self._rows, self._rows_of(host))]
        return float(weights.max()) if len(weights) else None

    def why_not(self, host: str) -> str:
        """Which check rejected a host, and why; empty where none did."""
        rows = self._rows_of(host)
        if not rows:
            return f"{host} is not in the replica"
        for check, lost, reasons in self._losses:
            for at in np.flatnonzero(np.isin(lost, rows)).tolist():
                return f"{check}: {reasons[at]}" if at < len(reasons) else check
        return ""

    def ties(self) -> list[str]:
        """All hosts of the best weight, sorted."""
        if not len(self._weights):
            return []
        best = np.abs(self._weights - self._weights.max()) <= _TOLERANCE
        return sorted({self._names[row][0] for row in self._rows[best].tolist()})

    def _rows_of(self, host: str) -> list[int]:
        first, after = bisect_left(self._names, (host, "")), bisect_left(self._names, (host + "\0", ""))
        return list(range(first, after))


def are_equal(one: float, other: float) -> bool:
    """Whether two weights are equal, but for rounding."""
    return abs(one - other) <= _TOLERANCE


def _name_of(check: Check) -> str:
    return f"{check.stage} {check.name}"


@dataclass(frozen=True)
class TrialDecision:
    """What Roost decided about one request."""

    request_id: str
    instance: str | None
    """Uuid of the first instance."""
    instances: int
    decided_at: datetime
    host: str | None
    """Of the first instance; None where there was no host for all of them."""
    summary: str
    """The decision in a sentence."""
    review: HostReview | None
    """None where the driver has no weights."""
    roost_us: float
    refresh_us: float


class RecordingChooser:
    """A `Chooser` that remembers the request as it was put to another one, completed and with its group."""

    def __init__(self, chooser: Chooser) -> None:
        self._chooser = chooser
        self._spec: RequestSpec | None = None

    def place(
        self,
        table: HostTable,
        spec: RequestSpec,
        uuids: Sequence[str | None],
        *,
        randomness: Randomness,
        clock: Callable[[], int],
        alternates: int = 0,
    ) -> Decision:
        """The decision of the other chooser."""
        self._spec = spec.for_instance(uuids[0]) if uuids else spec
        return self._chooser.place(table, spec, uuids, randomness=randomness, clock=clock, alternates=alternates)

    def forget(self) -> None:
        """A new request begins, which may be answered without this chooser: it has no review then."""
        self._spec = None

    def warm(self, table: HostTable, spec: RequestSpec) -> None:
        """Update the caches of the other chooser."""
        self._chooser.warm(table, spec)

    def review(self, table: HostTable) -> HostReview | None:
        """What the rules say of every host for the last request; None for a driver without filters and weighers.

        To be called before the table changes: with the replica's lock held since the request was placed.
        """
        if self._spec is None or not isinstance(self._chooser, Pipeline):
            return None
        try:
            return HostReview.of(self._chooser.rules, table, self._spec)
        except RoostError:  # a plugin; the decision itself has been made
            return None
