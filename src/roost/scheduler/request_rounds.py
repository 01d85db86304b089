# SPDX-License-Identifier: Apache-2.0
"""A request over the rounds of the claim loop: what its instances hold already, and which hosts are closed to it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from roost.errors import AlreadyClaimed, ClaimRejected, NoValidHost, Refusal
from roost.hosts import HostTable
from roost.ledger.claim import AFFINITY
from roost.ledger.unlocked_read import GroupPlaces
from roost.model import RequestSpec
from roost.model.resources import AllocationCandidates, move_of
from roost.records.recorder import SeenState
from roost.scheduler.closed_hosts import ClosedHosts, find_closed_sources
from roost.scheduler.granter import Granter
from roost.scheduler.prefilters import TRAIT_FILTERS
from roost.scheduler.repeats_and_moves import Holdings, read_held

MOST_ROUNDS = 100
"""Each refusal means that another claim succeeded, so free capacity bounds the number of rounds."""


class RequestRounds:
    """A request while hosts are chosen and claimed for it, until a round succeeds."""

    def __init__(
        self,
        granter: Granter,
        spec: RequestSpec,
        uuids: Sequence[str] | None,
        alternates: int,
        table: HostTable,
        is_dry_run: bool = False,
    ) -> None:
        """`uuids`: of its instances; None where there is nothing to claim for. `table`: the replica, however old."""
        self._granter, self.spec, self.uuids, self.alternates = granter, spec, uuids, alternates
        self.is_dry_run = is_dry_run
        self.started = 0.0
        """When this round began: "no valid host" is only answered from a later refresh."""
        self.held: Holdings = {}
        """What the instances and their migrations were seen to hold."""
        self._own: Sequence[str] = () if spec.is_rebuild or uuids is None else uuids
        """Instances that may hold something which matters: a rebuild stays where it is."""
        self._may_hold = any(table.rows_of_instance(each) for each in self._own)
        """Whether an instance is known to be on a host: only then the ledger is asked what it holds."""
        self.seen: SeenState | None = None
        """What the last choice was made from; None where that is not recorded."""
        self._candidates: AllocationCandidates | None = None
        self._closed = ClosedHosts()
        self.refusals = 0
        """How many rounds the ledger refused."""
        self._changes = 0
        """How many rounds failed because another scheduler changed what an instance holds."""

    def names(self) -> Sequence[str | None]:
        """The uuids of all instances; None for one that has none."""
        spec = self.spec
        return [spec.instance_uuid] * spec.num_instances if self.uuids is None else self.uuids

    def read_held(self) -> None:
        """Ask the ledger what the instances hold, if one of them may hold something."""
        self.held = read_held(self._granter, self._own) if self._may_hold else {}

    def read_candidates(self, table: HostTable, *, is_last_look: bool = False) -> None:
        """Ask the granter what it offers, if the replica cannot tell; `is_last_look`: or if it found no host."""
        asks = not self.spec.is_rebuild
        self._candidates = self._granter.find_candidates(self.spec, table, is_last_look) if asks else None

    def can_look_closer(self, refusal: NoValidHost) -> bool:
        """Whether the granter may know of room or traits that the replica does not show, and was not asked yet."""
        if not self._granter.has_candidates or self._candidates is not None or self.spec.is_rebuild:
            return False
        lost = [step for step in refusal.decision.steps if step.before > step.after]
        return any(step.stage == "capacity" or step.name in TRAIT_FILTERS for step in lost)

    @property
    def offers_nothing(self) -> bool:
        """Whether the granter was asked, and has no room on any host."""
        return self._candidates is not None and not self._candidates.by_node

    def with_current_group(self, table: HostTable, missing: Sequence[str | None]) -> tuple[RequestSpec, ClosedHosts]:
        """The request with its candidates, and its group as it is now: known members, hosts of other members.

        `missing`: the instances to place; the others of the request keep their hosts, as other members do. Also all
        hosts that strict groups close; sources of moving members are among them, which no filter sees.
        """
        spec, uuids = self.spec, self.uuids or ()
        if self._candidates is not None:
            spec = spec.changed(candidates=self._candidates)
        group = spec.instance_group
        if group is None:
            return spec, self._closed
        places = self._granter.read_group_places(group.uuid) if group.uuid else GroupPlaces([], [])
        members = tuple(dict.fromkeys((*group.members, *places.members, *uuids)))
        others = table.hosts_of(each for each in members if each not in missing)
        group = group.updated(members, tuple(dict.fromkeys((*group.hosts, *others))))
        own = [name for each in missing if each for name in (each, move_of(each))]
        sources = find_closed_sources(group, places, own, table) if places.sources else {}
        return spec.with_group(group), self._closed.with_more(sources)

    def note_no_host(self, error: NoValidHost) -> None:
        """Raise the error, unless the instances hold something else by now, which may be their answer."""
        if not self._own or read_held(self._granter, self._own) == self.held:
            error.rounds, error.seen = self.refusals + 1, self.seen
            raise error
        self.note_change(error)

    def note_change(self, error: AlreadyClaimed | NoValidHost) -> None:
        """Another scheduler changed what an instance holds: the next round starts from what it holds then."""
        self._may_hold = True
        self._changes += 1
        if self._changes == MOST_ROUNDS:
            raise error

    def note_refusal(self, error: ClaimRejected, table: HostTable) -> None:
        """Close hosts that strict groups refused, for the rest of the request; raise if another round is no use."""
        refusals = [each for each in error.refusals if each.group_uuid]
        closed = [self._closed_by(refusal, table) for refusal in refusals]  # first: a failed read is tried again
        self.refusals += 1
        if self.refusals == MOST_ROUNDS or self._closed.has_all(error.refusals):
            raise error
        for refusal, hosts in zip(refusals, closed, strict=True):
            self._closed.add([refusal.host, *hosts], refusal.reason)

    def _closed_by(self, refusal: Refusal, table: HostTable) -> Collection[str]:
        """All hosts that the refusing group closes, where filters do not find them out; read from the ledger."""
        group, uuids = self.spec.instance_group, self.uuids or ()
        found = self._granter.read_member_hosts(refusal.group_uuid)
        is_filtered = group is not None and group.uuid == refusal.group_uuid
        if is_filtered and found.policy != AFFINITY:
            return ()
        # No filter knows; or it would take a round per host.
        return found.closed_to([*uuids, *map(move_of, uuids)], {host for host, _ in table.names})
