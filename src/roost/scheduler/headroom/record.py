# SPDX-License-Identifier: Apache-2.0
"""The records of a count: how many more instances fit, where, what runs out, and what the loss of a host costs."""

from __future__ import annotations

from dataclasses import dataclass


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
