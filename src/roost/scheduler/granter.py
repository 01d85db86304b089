# SPDX-License-Identifier: Apache-2.0
"""Who grants a claim: the interface between the claim loop and what counts the resources of a cloud."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Sequence
from typing import Protocol

from roost.claims.claim import Claim
from roost.claims.move_operations import Move
from roost.claims.unlocked_read import GroupPlaces, HeldNode, MemberHosts


class Granter(Protocol):
    """Grants claims or refuses them: the ledger in Roost's own cloud, placement in a nova cloud. Thread-safe."""

    def claim(self, claims: Sequence[Claim]) -> None:
        """Make all claims or none: ClaimRejected says which nodes refused, and why."""

    def claim_and_move(self, claims: Sequence[Claim], moves: Sequence[Move]) -> None:
        """Make all claims and moves, or none; AlreadyClaimed if an instance holds something else than was seen."""

    def read_holdings(self, consumers: Sequence[str]) -> dict[str, dict[str, HeldNode]]:
        """Consumer uuid -> node uuid -> what it holds there, as far as that decides how a claim is made."""

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
