# SPDX-License-Identifier: Apache-2.0
"""What the rounds of the claim loop know: what instances of a request hold already, and which hosts are closed to it.

A reply may be lost and its request repeated: select_destinations is idempotent, so that this claims no second host. A
request for something else - another size, another host, or the same while its host is down - moves the instance. Both
are decided here, from what the instance and its migration were seen to hold; the ledger carries it out if they still
do. Hosts that a strict server group closes are known from the ledger: filters may not know of them, or be skipped.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from roost.errors import AlreadyClaimed, ClaimRejected, NoValidHost, Refusal
from roost.hosts import HostTable
from roost.hosts.guests import answers, are_alike
from roost.hosts.record import Pair
from roost.ledger.claim import AFFINITY, Claim, GroupPlaces, HeldNode, MemberHosts
from roost.ledger.operations import Holding, Move, RestartMove, RetargetMove, StartMove
from roost.model import Decision, RequestSpec
from roost.model.decision import build_unchecked
from roost.model.resources import AllocationCandidates, move_of
from roost.records.recorder import SeenState
from roost.scheduler.groups import ClosedHosts, find_closed_sources
from roost.scheduler.pipeline import make_decision, make_selection
from roost.scheduler.prefilters import TRAIT_FILTERS, may_be_in_cell


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


NOTHING_CHOSEN = make_decision(0, 0, (), (), {})
"""The decision for a request all of whose instances keep their hosts."""

Holdings = Mapping[str, Mapping[str, HeldNode]]
"""Instance or migration -> node uuid -> what it holds there."""


def read_held(granter: Granter, instances: Sequence[str]) -> Holdings:
    """What these instances and their migrations hold, as of one moment; empty if they hold nothing."""
    return granter.read_holdings([*instances, *map(move_of, instances)])


# --- repeats -----------------------------------------------------------------------------------------


def find_kept_rows(spec: RequestSpec, instances: Sequence[str], table: HostTable, held: Holdings) -> dict[str, int]:
    """Instance -> row that it holds and that still answers the request; the others have to be placed."""
    found = {}
    for instance in instances:
        nodes = held.get(instance, {})
        if len(nodes) == 1:
            ((node_uuid, place),) = nodes.items()
            row = table.find_row((place.host, place.node))
            if row is not None and table.uuids.get(row) == node_uuid and _is_answer(spec, table, row, place):
                found[instance] = row
    return found


def _is_answer(spec: RequestSpec, table: HostTable, row: int, place: HeldNode) -> bool:
    """Whether what is held on this row answers the request: its size, on a host that it allows and that is up."""
    host, node, amounts, guest = place
    asked = {name: amount for name, amount in spec.amounts.items() if amount}
    is_same_guest = answers(guest, spec, table.encoded["numa"].at(row))
    if not (amounts == asked and is_same_guest) and not table.numbers["is_bare_metal"][row]:
        return False
    wanted = spec.requested_destination
    return (
        bool(table.numbers["is_up"][row])
        and not _are_named(spec.ignore_hosts, [host])
        and (not spec.force_hosts or _are_named(spec.force_hosts, [host]))
        and node in (spec.force_nodes or (node,))
        and (wanted is None or ((wanted.host or host) == host and (wanted.node or node) == node))
        and may_be_in_cell(wanted, table)(table.encoded["cell"].at(row))
        and (host, node) not in (spec.retry.hosts if spec.retry else ())
    )


def with_kept_hosts(
    decision: Decision, instances: Sequence[str], kept: Mapping[str, int], table: HostTable
) -> Decision:
    """The decision for the other instances, with the hosts that these keep."""
    chosen = iter(decision.selections)
    selections = [make_selection(table, kept[each], each) if each in kept else next(chosen) for each in instances]
    sizes = {"hosts": len(table.names), "wanted": len(instances), "selections": tuple(selections)}
    return build_unchecked(Decision, {**vars(decision), **sizes})


# --- moves -------------------------------------------------------------------------------------------


class ClaimPlan(NamedTuple):
    """How chosen hosts are claimed."""

    claims: list[Claim]
    """Of instances that hold nothing, or exactly this."""
    moves: list[Move]
    """Of instances that hold something else."""


def plan_claims(
    claims: Sequence[Claim], held: Holdings, ignored: Collection[str] | None, failed: Collection[Pair] = ()
) -> ClaimPlan:
    """How these claims are made for instances that may hold something else.

    `ignored`: hosts that the request says to ignore; `failed`: nodes on which the instances could not be built.
    """
    plan = ClaimPlan([], [])
    for claim in claims:
        places, sources = (held.get(each, {}) for each in (claim.consumer_uuid, move_of(claim.consumer_uuid)))
        seen = Holding(_amounts(places), _amounts(sources))
        if not places or _is_held(claim, places):
            plan.claims.append(claim)
        else:
            kind = _kind_of_move(places, sources, ignored, failed)
            plan.moves.append(kind(move_of(claim.consumer_uuid), claim, seen))
    return plan


def _kind_of_move(
    places: Mapping[str, HeldNode],
    sources: Mapping[str, HeldNode],
    ignored: Collection[str] | None,
    failed: Collection[Pair],
) -> type[Move]:
    """What is released, by where the instance runs: a request to move it ignores its host, and others that failed."""
    if all((place.host, place.node) in failed for place in places.values()):
        return RetargetMove
    if _are_named(ignored, [place.host for place in sources.values()]):
        return RetargetMove  # it is on a source still
    if sources and _are_named(ignored, [place.host for place in places.values()]):
        return RestartMove  # it has arrived at the target, and so has left the sources
    return StartMove


def _is_held(claim: Claim, places: Mapping[str, HeldNode]) -> bool:
    """Whether the places are exactly what is claimed, whichever CPUs and devices it got there."""
    place = places.get(claim.node_uuid)
    if place is None or len(places) > 1:
        return False
    amounts = {name: amount for name, amount in claim.amounts.items() if amount}
    return place.amounts == amounts and are_alike(place.guest, claim.guest)


def _amounts(places: Mapping[str, HeldNode]) -> dict[str, dict[str, int]]:
    return {node_uuid: place.amounts for node_uuid, place in places.items()}


def _are_named(names: Collection[str] | None, hosts: Collection[str]) -> bool:
    """Whether one of the hosts is named, in upper or lower case."""
    lower = {name.lower() for name in names or ()}
    return any(host.lower() in lower for host in hosts)


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
