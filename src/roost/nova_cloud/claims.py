# SPDX-License-Identifier: Apache-2.0
"""Claims in a nova cloud: placement grants them."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Sequence

from roost.errors import ClaimRejected, PlacementConflict, PlacementError, Refusal
from roost.hosts import HostTable
from roost.hosts.record import Pair
from roost.ledger.claim import Claim
from roost.ledger.operations import Move
from roost.ledger.unlocked_read import GroupPlaces, HeldNode, MemberHosts
from roost.model import RequestSpec
from roost.model.resources import AllocationCandidate, AllocationCandidates
from roost.nova_cloud.candidates import CandidateReader
from roost.nova_cloud.claim_journal import ClaimJournal
from roost.nova_cloud.databases.api_reader import ApiReader
from roost.nova_cloud.own_claims import OwnClaims
from roost.nova_cloud.placement.allocations import AllocationWriter
from roost.nova_cloud.placement.consumers import AllocationRequest


class PlacementGranter:
    """A `Granter` whose claims are allocations in placement. Thread-safe.

    Moves need nothing special: nova's conductor has given the old allocations to the migration before it asks, and
    nova-compute releases them. Only an instance that is evacuated still holds its old host, and keeps it.
    """

    def __init__(
        self,
        writer: AllocationWriter,
        api: ApiReader,
        own_claims: OwnClaims,
        candidates: CandidateReader,
        journal: ClaimJournal,
        find_pair: Callable[[str], Pair | None],
        now: Callable[[], datetime.datetime],
    ) -> None:
        """`find_pair`: host and node of a provider's uuid; None where the replica does not have it."""
        self._writer, self._api, self._own_claims, self._candidates = writer, api, own_claims, candidates
        self._journal = journal
        self._find_pair, self._now = find_pair, now

    has_candidates = True
    """Freed room shows in the replica some seconds later."""

    def find_candidates(self, spec: RequestSpec, table: HostTable, is_last_look: bool) -> AllocationCandidates | None:
        """What placement offers for a request; None where the replica can tell."""
        return self._candidates.find(spec, table, is_last_look)

    def reread(self, node_uuids: Collection[str]) -> None:
        """Read the providers of these nodes into the snapshot, which the next refresh takes over."""
        self._writer.reread(node_uuids)

    def expect(self, claims: Sequence[Claim]) -> None:
        """Add these claims, which are about to be made, to the rows of nova's that do not count them yet."""
        self._own_claims.add(claims, self._now())

    def claim(self, claims: Sequence[Claim]) -> None:
        """Claim all in one request to placement; ClaimRejected names all its nodes: placement does not say which."""
        consumers = [claim.consumer_uuid for claim in claims]
        self._journal.begin(consumers)
        try:
            self._writer.claim([_as_request(claim) for claim in claims])
        except BaseException as error:
            self._own_claims.remove(claims)
            is_known = isinstance(error, PlacementError) and not error.may_be_executed
            (self._journal.end if is_known else self._journal.abandon)(consumers)
            if isinstance(error, PlacementConflict):
                raise self._rejected({claim.node_uuid for claim in claims}, error) from error
            raise

    def _rejected(self, node_uuids: Collection[str], error: PlacementConflict) -> ClaimRejected:
        """The refusal of all these nodes, whose providers are read again for the next choice."""
        self.reread(node_uuids)
        return ClaimRejected([self._refusal(uuid, error) for uuid in node_uuids])

    def note_answered(self, consumers: Sequence[str]) -> None:
        """The caller has its answer: what was claimed for these is nova's to release from now on."""
        self._journal.end(consumers)

    def _refusal(self, node_uuid: str, error: PlacementConflict) -> Refusal:
        host, node = self._find_pair(node_uuid) or (node_uuid, node_uuid)
        return Refusal(host, node, f"placement refused the claim: {error.message}")

    def claim_and_move(self, claims: Sequence[Claim], moves: Sequence[Move]) -> None:
        """Claim all; what an instance holds elsewhere is not this scheduler's to release."""
        self.claim([*claims, *(move.claim for move in moves)])

    def read_holdings(self, consumers: Sequence[str]) -> dict[str, dict[str, HeldNode]]:
        """Nothing: how a claim is made does not depend on it here."""
        return {}

    def has_allocations(self, consumer: str) -> bool:
        """Whether a consumer holds anything in placement now."""
        return bool(self._writer.held_by([consumer]))

    def read_group_places(self, group_uuid: str) -> GroupPlaces:
        """Members as nova's API database has them; where they are is in the replica."""
        group = self._api.read_groups([group_uuid]).get(group_uuid)
        return GroupPlaces(sorted(group.members) if group else [], [])

    def read_member_hosts(self, group_uuid: str) -> MemberHosts:
        """No policy: placement knows of no groups, so it never refuses a claim for the sake of one."""
        return MemberHosts("", 1, None, {})

    def release_on(
        self,
        consumers: Sequence[str],
        node_uuids: Collection[str],
        made_before: datetime.datetime | None = None,
        left_host: str = "",
    ) -> int:
        """Nothing: nova-compute releases allocations."""
        return 0


def _as_request(claim: Claim) -> AllocationRequest:
    taken = claim.candidate or _on_the_node(claim)
    return AllocationRequest(
        claim.consumer_uuid, taken.allocations, taken.mappings, claim.project_id or "", claim.user_id or ""
    )


def _on_the_node(claim: Claim) -> AllocationCandidate:
    """The amounts of a claim, all from the provider of its node."""
    amounts = {name: amount for name, amount in claim.amounts.items() if amount}
    return AllocationCandidate({claim.node_uuid: amounts}, {"": [claim.node_uuid]})
