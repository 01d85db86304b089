# SPDX-License-Identifier: Apache-2.0
"""Who grants a claim: the interface between the claim loop and what counts the resources of a cloud."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Sequence
from typing import Protocol

from roost.hosts import HostTable
from roost.ledger.claim import Claim
from roost.ledger.operations import Move
from roost.ledger.unlocked_read import GroupPlaces, HeldNode, MemberHosts
from roost.model import RequestSpec
from roost.model.resources import AllocationCandidates


class Granter(Protocol):
    """Grants claims or refuses them: the ledger in Roost's own cloud, placement in a nova cloud. Thread-safe."""

    @property
    def has_candidates(self) -> bool:
        """Whether `find_candidates` can tell of room that the replica does not show."""

    def find_candidates(self, spec: RequestSpec, table: HostTable, is_last_look: bool) -> AllocationCandidates | None:
        """What can be allocated for a request; None where the replica tells that.

        `is_last_look`: the replica has no host for it. `table`: the replica, for the names of nodes.
        """

    def reread(self, node_uuids: Collection[str]) -> None:
        """Have the next refresh of the replica find what is allocated on these nodes now."""

    def expect(self, claims: Sequence[Claim]) -> None:
        """These claims are about to be made; called while the replica is locked."""

    def claim(self, claims: Sequence[Claim]) -> None:
        """Make all claims or none: ClaimRejected says which nodes refused, and why."""

    def note_answered(self, consumers: Sequence[str]) -> None:
        """The caller of a request for these instances has its answer."""

    def claim_and_move(self, claims: Sequence[Claim], moves: Sequence[Move]) -> None:
        """Make all claims and moves, or none; AlreadyClaimed if an instance holds something else than was seen."""

    def read_holdings(self, consumers: Sequence[str]) -> dict[str, dict[str, HeldNode]]:
        """Consumer uuid -> node uuid -> what it holds there, as far as that decides how a claim is made."""

    def has_allocations(self, consumer: str) -> bool:
        """Whether a consumer holds anything now."""

    def read_group_places(self, group_uuid: str) -> GroupPlaces:
        """Members of a server group, and the hosts from which migrations of members move away."""

    def read_member_hosts(self, group_uuid: str) -> MemberHosts:
        """Policy of a server group, and the members and migrations that have a place on each host."""

    def release_on(
        self,
        consumers: Sequence[str],
        node_uuids: Collection[str],
        made_before: datetime.datetime | None = None,
        left_host: str = "",
    ) -> int:
        """An instance has left these nodes: release what it held there, unless others do that: of how many."""
