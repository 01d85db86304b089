# SPDX-License-Identifier: Apache-2.0
"""Claims in a nova cloud: placement grants them, a write-ahead journal notes which were begun and which answered.

A scheduler that is killed after a claim and before its answer leaves an allocation that no instance uses. So each
claim is noted in a file before it is made, and noted again when its caller has the answer. The file is locked while
its process lives. A scheduler that finds one without a lock takes over what was not answered. Notes are not synced to
disk: they survive a killed process, not a power failure. A claim waits for its note, but not for long: a disk that
hangs or is full costs notes, never a request.

Abandoned claims - of a scheduler that was killed, or of a placement that went away - are released only where no
instance can be using them: the caller has given up, the instance is in no cell (nova puts it into cell0 then, or it
was deleted), and nothing else has been written for it in placement.

A compute node's row counts an instance about half a second after its claim, when nova-compute has begun to build it.
Requests that come meanwhile would all see the same best host. So the claims of this scheduler are added to a row
until it was written after them.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import threading
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from roost.best_effort import SWALLOWED, best_effort
from roost.errors import ClaimRejected, OptionError, PlacementConflict, PlacementError, Refusal
from roost.hosts import HostRecord, HostTable, Instance
from roost.hosts.guests import GuestSpace
from roost.hosts.record import Pair
from roost.ledger.claim import Claim, GroupPlaces, HeldNode, MemberHosts
from roost.ledger.operations import Move
from roost.model import RequestSpec
from roost.model.resources import AllocationCandidate, AllocationCandidates
from roost.nova.databases.api import ApiReader
from roost.nova.placement.allocations import AllocationRequest, AllocationWriter, read_held, release_held
from roost.nova.placement.candidates import CandidateReader
from roost.nova.placement.client import PlacementClient
from roost.services.log_handlers import LineWriter

LOG = logging.getLogger(__name__)

PATTERN = "claims-*.journal"
LONGEST_BYTES = 1 << 20
"""A file that is longer is written anew, with the claims that are open."""
LONGEST_NOTE_SECONDS = 1.0
"""How long a claim waits for its note to be written. While the disk hangs, the claims after it do not wait."""


class ClaimJournal:
    """The journal of one process. May be shared by threads."""

    def __init__(self, folder: Path | None, now: Callable[[], float], patience_seconds: float) -> None:
        """`folder`: None: claims are noted in memory only. `now`: seconds since the epoch.

        `patience_seconds`: after that time the caller of a claim that was not answered has given up.
        """
        self._folder, self._now, self._patience_seconds = folder, now, patience_seconds
        self._lock = threading.Lock()
        self._open: set[str] = set()
        """Consumers of claims that were begun, and neither refused nor answered yet."""
        self._abandoned: dict[str, float] = {}
        """Consumer of a claim that may be held and is not answered -> when its caller has given up."""
        self._file: int | None = None
        self._path: Path | None = None
        self._writer = LineWriter(self._append, self._note_lost, name="claim journal")
        self._is_stuck = False
        """Whether a note was not written in time, and is not yet."""

    def open(self) -> None:
        """Make the file; OptionError where the folder cannot be used."""
        if self._folder is None or self._file is not None:
            return
        name = f"claims-{uuid.uuid4().hex}"
        made, self._path = self._folder / f"{name}.new", self._folder / f"{name}.journal"
        try:
            self._file = os.open(made, os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o600)
            fcntl.flock(self._file, fcntl.LOCK_EX)
            made.rename(self._path)  # others see it only now that it is locked
        except OSError as error:
            problem = f"[roost] state_directory = {self._folder}: {error.strerror}"
            raise OptionError(problem, "name a folder that this user may write to") from None

    def take_over(self) -> None:
        """Take over the claims in files whose processes are gone, and remove the files."""
        if self._folder is None or self._file is None:
            return
        for path in sorted(self._folder.glob(PATTERN)):
            if path != self._path:
                with suppress(BlockingIOError, FileNotFoundError), path.open("rb") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    self._adopt(path.name, dict(_open_claims(file.read().splitlines())))
                    path.unlink(missing_ok=True)

    def _adopt(self, name: str, found: Mapping[str, float]) -> None:
        LOG.info("claims of a scheduler that was killed are looked at: %d in %s", len(found), name)
        with self._lock:
            self._abandoned.update(found)
            self._queue(*({"begin": [consumer], "until": until} for consumer, until in found.items()))
        self._wait()

    @best_effort("claim_journal")
    def begin(self, consumers: Collection[str]) -> None:
        """These claims are about to be made."""
        with self._lock:
            self._open.update(consumers)
            self._queue({"begin": list(consumers), "until": self._now() + self._patience_seconds})
        self._wait()

    @best_effort("claim_journal")
    def end(self, consumers: Collection[str]) -> None:
        """These claims were refused or answered, or released."""
        with self._lock:
            self._open.difference_update(consumers)
            for consumer in consumers:
                self._abandoned.pop(consumer, None)
            self._queue({"end": list(consumers)})
        self._wait()

    @best_effort("claim_journal")
    def abandon(self, consumers: Collection[str]) -> None:
        """It is not known whether these claims were made, and their callers are told that they were not."""
        with self._lock:
            self._open.difference_update(consumers)
            self._abandoned.update(dict.fromkeys(consumers, self._now() + self._patience_seconds))

    def abandoned(self) -> dict[str, float]:
        """Consumers whose callers have given up by now -> when they did, in seconds since the epoch."""
        with self._lock:
            return {consumer: until for consumer, until in self._abandoned.items() if until <= self._now()}

    def close(self) -> None:
        """Close the file; it is removed unless claims in it are open."""
        is_written = self._writer.close(LONGEST_NOTE_SECONDS)
        with self._lock:
            if self._file is None or self._path is None:
                return
            if not (self._open or self._abandoned):
                self._path.unlink(missing_ok=True)
            if is_written:  # otherwise closing it would wait, too
                os.close(self._file)
            self._file = None

    # --- the file ---

    def _queue(self, *notes: dict[str, object]) -> None:
        """Have notes written in the background, in the order of the calls."""
        if self._is_stuck:
            self._is_stuck = not self._writer.flush(0.0)
        for note in notes if self._file is not None else ():
            self._writer.put(_line(note))

    def _wait(self) -> None:
        """Wait until all notes are written, unless the disk is known to hang."""
        if not self._is_stuck and not self._writer.flush(LONGEST_NOTE_SECONDS):
            self._is_stuck = True
            LOG.error("claims are not noted in time: the disk of %s hangs", self._path)

    def _append(self, text: str) -> None:
        if self._file is not None:
            os.write(self._file, text.encode())
            self._shorten(self._file)

    def _note_lost(self, notes: int, error: Exception | None) -> None:
        SWALLOWED.count("claim_journal", notes)
        if error is not None and self._file is not None:
            LOG.error("claims are not noted any more: %s: %s", self._path, getattr(error, "strerror", None) or error)
            os.close(self._file)
            self._file = None

    def _shorten(self, file: int) -> None:
        """Leave only the notes of claims that are open, if the file is long; queued ones come after them."""
        if os.fstat(file).st_size <= LONGEST_BYTES:
            return
        with self._lock:
            until = dict.fromkeys(self._open, self._now() + self._patience_seconds) | self._abandoned
        os.ftruncate(file, 0)
        lines = (_line({"begin": [consumer], "until": moment}) for consumer, moment in until.items())
        os.write(file, "".join(lines).encode())


def _line(note: dict[str, object]) -> str:
    return json.dumps(note) + "\n"


def _open_claims(lines: list[bytes]) -> Iterator[tuple[str, float]]:
    begun: dict[str, float] = {}
    for line in lines:
        with suppress(ValueError, TypeError, AttributeError):  # the last line may be cut off
            note = json.loads(line)
            begun |= dict.fromkeys(map(str, note.get("begin", ())), float(note.get("until", 0)))
            for consumer in note.get("end", ()):
                begun.pop(consumer, None)
    yield from begun.items()


FIRST_GENERATION = 1
"""Generation of a consumer that was written once, by its claim."""
LONGEST_WAIT_SECONDS = 600
"""How long it is looked at whether an instance that is in no cell yet gets into one."""


class AbandonedClaims:
    """Looks after the claims that a journal lists as abandoned."""

    def __init__(
        self, journal: ClaimJournal, api: ApiReader, client: PlacementClient, now: Callable[[], float]
    ) -> None:
        """`now`: seconds since the epoch."""
        self._journal, self._api, self._client, self._now = journal, api, client, now

    def release(self) -> None:
        """Release those that no instance uses; forget those that one does, or for which that stays unknown.

        Nothing is done while it is not known which cell is cell0.
        """
        self._journal.take_over()
        due, cell0 = self._journal.abandoned(), self._api.cell0_id
        if not due or cell0 is None:
            return
        cells = self._api.read_instance_cells(due)
        for consumer, since in due.items():
            if consumer not in cells or cells[consumer] == cell0:
                self._try_to_release(consumer)
            elif cells[consumer] is not None or self._now() > since + LONGEST_WAIT_SECONDS:
                self._journal.end([consumer])

    def _try_to_release(self, consumer: str) -> None:
        try:
            self._release_one(consumer)
        except PlacementError as error:  # tried again with the next look, after the others
            LOG.debug("what instance %s holds could not be looked at: %s", consumer, error)

    def _release_one(self, consumer: str) -> None:
        held = read_held(self._client, consumer)
        if held.allocations and held.generation == FIRST_GENERATION:
            try:
                release_held(self._client, consumer, held)
                LOG.info("what instance %s held in placement is released: its request was not answered", consumer)
            except PlacementConflict as error:
                LOG.info("what instance %s holds in placement stays: %s", consumer, error)
        self._journal.end([consumer])


SETTLING = timedelta(seconds=1.5)
"""How long a claim is added in any case: the row may have been written for another instance in the same second."""
LONGEST = timedelta(seconds=60)
"""How long a claim is added at most: the build may have failed before nova-compute counted it."""


class OwnClaim(NamedTuple):
    """A claim of this scheduler that is about to be made, or was granted."""

    claim: Claim
    claimed_at: datetime


class OwnClaims:
    """Claims of this scheduler by node. May be shared by threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_node: dict[str, list[OwnClaim]] = defaultdict(list)

    def add(self, claims: Iterable[Claim], now: datetime) -> None:
        """Add claims that are made now."""
        with self._lock:
            for claim in claims:
                self._by_node[claim.node_uuid].append(OwnClaim(claim, now))

    def remove(self, claims: Iterable[Claim]) -> None:
        """Remove claims that were not granted."""
        with self._lock:
            for claim in claims:
                left = [each for each in self._by_node[claim.node_uuid] if each.claim is not claim]
                self._by_node[claim.node_uuid] = left

    def settle(self, written_at: Callable[[str], datetime | None], now: datetime) -> set[str]:
        """Drop claims that rows count by now: the nodes, by uuid, of which some were dropped.

        `written_at`: when the row of a node, by uuid, was written last; whole seconds on MariaDB.
        """
        settled = set()
        with self._lock:
            for uuid in list(self._by_node):
                before = self._by_node[uuid]
                left = [each for each in before if not _is_counted(each, written_at(uuid), now)]
                if len(left) < len(before):
                    settled.add(uuid)
                if left:
                    self._by_node[uuid] = left
                else:
                    del self._by_node[uuid]
        return settled

    def added_to(self, record: HostRecord) -> HostRecord:
        """The record with the claims on its node added, as `HostTable.consume` would."""
        with self._lock:
            claims = [each.claim for each in self._by_node.get(record.uuid, ())]
        listed = {each.uuid for each in record.instances}
        for claim in claims:
            record = _with_claim(record, claim, claim.consumer_uuid in listed)
        return record


def _is_counted(own: OwnClaim, written_at: datetime | None, now: datetime) -> bool:
    age = now - own.claimed_at
    if age < SETTLING:
        return False
    is_written = written_at is not None and written_at >= own.claimed_at.replace(microsecond=0)
    return is_written or age > LONGEST


def _with_claim(record: HostRecord, claim: Claim, is_listed: bool) -> HostRecord:
    use, space = claim.use, GuestSpace(record.numa, record.pci_pools)
    if claim.guest is not None:
        space = space.with_guest(claim.guest)
    instances = record.instances if is_listed else (*record.instances, _instance(claim))
    return replace(
        record,
        free_ram_mb=(record.free_ram_mb or 0) - use.memory_mb,
        free_disk_mb=(record.free_disk_mb or 0) - 1024 * use.disk_gb,
        disk_mb_used=(record.disk_mb_used or 0) + 1024 * use.disk_gb,
        vcpus_used=(record.vcpus_used or 0) + use.vcpus,
        num_instances=(record.num_instances or 0) + 1,
        num_io_ops=(record.num_io_ops or 0) + 1,
        numa=space.numa,
        pci_pools=space.pools,
        instances=instances,
    )


def _instance(claim: Claim) -> Instance:
    details = claim.details
    return Instance(
        claim.consumer_uuid,
        claim.project_id,
        details.get("flavor_id"),
        details.get("image_props") or {},
        claim.amounts,
    )


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
        now: Callable[[], datetime],
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
        made_before: datetime | None = None,
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
