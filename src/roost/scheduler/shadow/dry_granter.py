# SPDX-License-Identifier: Apache-2.0
"""A granter for shadow mode: it reads what another one reads, and writes nothing."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Sequence

from roost.hosts import HostTable
from roost.ledger.claim import Claim
from roost.ledger.operations import Move
from roost.ledger.unlocked_read import GroupPlaces, HeldNode, MemberHosts
from roost.model import RequestSpec
from roost.model.resources import AllocationCandidates
from roost.scheduler.rounds import Granter


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
        made_before: datetime.datetime | None = None,
        left_host: str = "",
    ) -> int:
        """Nothing is released: 0."""
        return 0
