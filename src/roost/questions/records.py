# SPDX-License-Identifier: Apache-2.0
"""What explanations and counts of headroom consist of: plain records, which `model.json_records` turns into JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from roost.model.remedy import Remedy


@dataclass(frozen=True)
class Rejection:
    """A rejected host, the first check that rejected it, and the reason in words."""

    host: str
    node: str
    stage: str
    name: str
    reason: str


@dataclass(frozen=True)
class FunnelStep:
    """One check of a placement: how many hosts came to it, and how many passed."""

    stage: str
    name: str
    before: int
    after: int


@dataclass(frozen=True)
class Reason:
    """A check, and how many hosts it rejects."""

    stage: str
    name: str
    subject: str
    """What it is about: the same for checks that ask for one thing in two places, such as `ram` and RamFilter."""
    hosts: int
    """Hosts for which it is the first check that rejects them; these numbers add up to all rejected hosts."""
    hosts_in_all: int
    """Hosts that it rejects, whatever other checks say of them."""
    hosts_of_subject: int
    """Hosts that it rejects, or another check about the same subject."""


@dataclass(frozen=True)
class Lift:
    """Checks without which the request would fit: one, or several that ask for the same thing in two places."""

    subjects: tuple[str, ...]
    checks: tuple[str, ...]
    hosts: int
    """Hosts on which it would fit."""
    examples: tuple[str, ...]
    """Some of them, by name."""


@dataclass(frozen=True)
class NearestMiss:
    """What was asked for of one kind - an amount, a zone, a group - and the nearest that the fleet has."""

    subject: str
    stage: str
    check: str
    text: str
    """One sentence with the numbers or names."""
    only_obstacle: int
    """Hosts that pass everything but this."""
    host: str = ""
    """The host that the sentence is about; empty where it is about none."""
    node: str = ""
    remedy: Remedy | None = None
    """What would let the host that comes nearest pass this check."""


@dataclass(frozen=True)
class HostScore:
    """What one weigher contributes to the weight of a host."""

    weigher: str
    raw: float
    normalised: float
    multiplier: float
    contribution: float


@dataclass(frozen=True)
class RankedHost:
    """A host that can take the request, with its place among all that can."""

    host: str
    node: str
    rank: int
    """1 is the best."""
    weight: float
    scores: tuple[HostScore, ...]
    """Empty if it is the only host that can take the request, which is not weighed."""


@dataclass(frozen=True)
class Explanation:
    """Why a request fits where it does, or nowhere.

    Of several instances, it is about the first for which no host is left; if all have one, about the first.
    """

    fits: bool
    """Whether every instance has a host."""
    hosts: int
    """Hosts there are."""
    wanted: int
    """Instances that the request asks for."""
    placed: int
    """How many of them fit; fewer than `wanted`: the rest of the record is about the next one."""
    fitting: int
    """Hosts that can take the instance."""
    steps: tuple[FunnelStep, ...]
    """The funnel: each check in its order, with the hosts before and after it."""
    reasons: tuple[Reason, ...]
    """The histogram, largest first."""
    lifts: tuple[Lift, ...]
    """The smallest sets of checks without which it would fit, most hosts first: single checks, if there are any."""
    misses: tuple[NearestMiss, ...]
    """One per check that rejects a host, those that are the only obstacle of most hosts first."""
    best: tuple[RankedHost, ...]
    """The best hosts, if it fits; the first is the winner."""
    margin: float | None
    """By how much the weight of the winner exceeds that of the second; None if there is no second."""
    alternates: tuple[str, ...]
    """Hosts to try next, if a build on the winner fails."""
    picks_among: int
    """The winner is picked by chance among so many of the best; 1: the best one is."""
    rejections: tuple[Rejection, ...]
    """Every rejected host with the first check that rejects it, sorted by host and node."""


@dataclass(frozen=True)
class Blocker:
    """A check that rejects a host, with the reason in words."""

    stage: str
    name: str
    subject: str
    reason: str
    is_first: bool
    """Whether it is the one that rejects the host in a placement: the checks after it are not asked any more."""
    is_plugin: bool
    """Whether it is a filter that is no part of Roost."""
    remedy: Remedy | None
    """What would let the host pass it."""


@dataclass(frozen=True)
class ScoreDifference:
    """What one weigher says of a host and of the winner."""

    weigher: str
    own: HostScore
    winner: HostScore

    @property
    def lead(self) -> float:
        """By how much the winner leads through this weigher; negative if it is behind."""
        return self.winner.contribution - self.own.contribution


@dataclass(frozen=True)
class HostExplanation:
    """Why one host cannot take a request, or why another one won."""

    host: str
    node: str
    hosts: int
    wanted: int
    placed: int
    """As in `Explanation`: how many instances have a host before the one that this is about."""
    blockers: tuple[Blocker, ...]
    """Every check that rejects the host; empty if it can take the instance."""
    fitting: int
    """Hosts that can take the instance."""
    own: RankedHost | None
    """The host's place; None if it is rejected."""
    winner: RankedHost | None
    """The best host; None if none can take the instance."""
    differences: tuple[ScoreDifference, ...]
    """Its scores beside the winner's, the largest lead of the winner first."""
    decided_by: str
    """The weigher through which the winner leads most; empty if this host is the winner, or the weights are equal."""

    @property
    def is_winner(self) -> bool:
        """Whether the host is the best one."""
        return self.own is not None and self.own.rank == 1

    @property
    def remedies(self) -> Mapping[str, Remedy]:
        """Check -> what would let the host pass it."""
        return {each.name: each.remedy for each in self.blockers if each.remedy}


@dataclass(frozen=True)
class Shortage:
    """A check that rejects hosts once no further instance fits.

    A host that lacks several amounts counts once in `hosts`, and in `ran_out_on` for each of them.
    """

    stage: str
    name: str
    hosts: int
    """How many hosts it is the first check to reject."""
    ran_out_on: int
    """How many hosts it rejects that could take an instance at the start."""
    detail: str = ""
    """What the rejected hosts lack, in numbers; may be empty."""


@dataclass(frozen=True)
class GroupHeadroom:
    """The part of the headroom that is on the hosts of one availability zone, rack or the like."""

    name: str
    hosts: int
    fits: int
    hosts_used: int
    """How many of its hosts take at least one instance."""
    shortages: tuple[Shortage, ...]
    """What its hosts lack in the end, as in `Headroom.shortages`; without details."""


@dataclass(frozen=True)
class HostHeadroom:
    """A host that takes some of the instances."""

    host: str
    node: str
    fits: int


@dataclass(frozen=True)
class HostLoss:
    """What still fits after one host is lost and its servers were placed again on the others, largest first.

    Of a host with several nodes one node is lost.
    """

    host: str
    node: str
    fits: int
    """How many instances still fit then."""
    servers: int
    """How many servers of the host were placed again."""
    homeless: int
    """How many servers found no other host."""
    unknown_servers: int
    """How many servers were left out, because neither their flavor nor their size is known."""
    has_unlisted_use: bool
    """Whether more memory or CPUs of the host are in use than its listed servers account for."""
    tried: int
    """Of how many hosts the loss was tried."""
    candidates: int
    """How many hosts could be lost: all that are up."""

    @property
    def is_worst_of_all(self) -> bool:
        """Whether the loss of no other host costs more; False where not all of them were tried."""
        return self.tried == self.candidates


@dataclass(frozen=True)
class Headroom:
    """How many more instances of a request fit on a fleet, counted by placing them."""

    fits: int
    is_complete: bool
    """False where counting stopped at its limit: `fits` is that limit, and more may fit."""
    hosts: int
    hosts_used: int
    """How many hosts take at least one instance."""
    shortages: tuple[Shortage, ...]
    """What the hosts lack in the end, first what ran out on most hosts. Their `hosts` add up to all hosts."""
    by: str
    """The metadata key by whose value `groups` are formed."""
    groups: tuple[GroupHeadroom, ...]
    """By name. A host with several values is in a group of its combination, so that the numbers add up."""
    placed: tuple[HostHeadroom, ...]
    """The hosts that take instances, by name."""
    worst_loss: HostLoss | None = None
    """The loss of a host that costs most; None where it was not asked for, or no host is up."""
