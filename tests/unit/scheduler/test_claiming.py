# SPDX-License-Identifier: Apache-2.0
"""The loop of choosing and claiming: what it does when somebody else is faster."""

import random
import threading

import pytest

from roost.errors import ClaimRejected, DatabaseUnreachable, NoValidHost, Refusal
from roost.filters.server_group import ServerGroupAntiAffinityFilter
from roost.ledger.claim import GroupPlaces
from roost.model import ServerGroup
from roost.scheduler import rounds
from roost.scheduler.claiming import ClaimLoop
from roost.scheduler.pipeline import Pipeline
from roost.testing import make_hosts, make_spec
from roost.weighers.ram import RAMWeigher


class Fleet:
    """The truth, which others change, and the picture of it that a scheduler has."""

    def __init__(self, **hosts):
        self.truth, self.seen = make_hosts(**hosts), make_hosts(**hosts)
        for table in (self.truth, self.seen):
            table.uuids = {row: f"node-{host}" for row, (host, _) in enumerate(table.names)}
        self.lock = threading.RLock()
        self.looks, self.reread_nodes, self.flag_looks = 0, [], 0

    @property
    def table(self):
        return self.seen

    def refresh(self, also=()):
        self.looks += 1
        self.reread_nodes += [set(also)] if also else []
        uuids, self.seen = self.seen.uuids, self.truth.copy()
        self.seen.uuids = uuids

    def refresh_flags(self):
        self.flag_looks += 1


class Truth:
    """A ledger that gives out what the truth has, but for what others take first."""

    def __init__(self, fleet):
        self.fleet, self.claims, self.before_claim = fleet, [], []
        self.error, self.members = None, {}

    has_candidates = False

    def expect(self, claims):
        pass

    def find_candidates(self, spec, table, is_last_look):
        return None

    def read_group_places(self, group_uuid):
        return GroupPlaces(list(self.members.get(group_uuid, ())), [])

    def read_holdings(self, consumers):
        return {}

    def claim(self, claims):
        if self.before_claim:
            self.before_claim.pop(0)()
        if self.error:
            raise self.error
        table, refused = self.fleet.truth, []
        for claim in claims:
            row = int(next(row for row, uuid in self.fleet.seen.uuids.items() if uuid == claim.node_uuid))
            if table.numbers["allocated:VCPU"][row] + claim.amounts["VCPU"] > table.numbers["limit:VCPU"][row]:
                refused.append(Refusal(table.names[row][0], "", "full"))
        if refused:
            raise ClaimRejected(refused)
        for claim in claims:
            self.claims.append(claim)
            row = next(row for row, uuid in self.fleet.seen.uuids.items() if uuid == claim.node_uuid)
            table.consume(row, make_spec(vcpus=claim.amounts["VCPU"], instance_uuid=claim.consumer_uuid))


HOSTS = {
    "host": ["a", "b"],
    "vcpus_total": 4,
    "cpu_allocation_ratio": 1.0,
    "total_usable_ram_mb": [4000, 2000],
    "total_usable_disk_gb": 100,
}


class Clock:
    """Goes forward by a second at each look."""

    now = 0.0

    def __call__(self):
        self.now += 1
        return self.now


def make_scheduler(fleet=None, filters=(), longest_age_seconds=1000.0, **more):
    fleet = fleet or Fleet(**HOSTS)
    ledger = Truth(fleet)
    pipeline = Pipeline(list(filters), [RAMWeigher()])
    made = ClaimLoop(
        fleet,
        pipeline,
        ledger,
        longest_age_seconds=longest_age_seconds,
        randomness=random.Random(1),
        clock=Clock(),
        sleep=lambda seconds: None,
        **more,
    )
    return made, fleet, ledger


def request(vcpus=2, **fields):
    return make_spec(vcpus=vcpus, memory_mb=100, **fields)


def take(fleet, row, vcpus):
    """Somebody else takes so much, and we do not know."""
    return lambda: fleet.truth.consume(row, make_spec(vcpus=vcpus, memory_mb=100, instance_uuid=f"other{row}{vcpus}"))


def test_what_is_chosen_is_claimed_of_its_node():
    scheduler, _, ledger = make_scheduler()
    decision = scheduler.select(request(), ["one"]).decision
    assert [each.host for each in decision.selections] == ["a"]
    (claim,) = ledger.claims
    assert (claim.consumer_uuid, claim.node_uuid, claim.amounts["VCPU"]) == ("one", "node-a", 2)


def test_refused_it_looks_again_and_takes_the_next_host():
    scheduler, fleet, ledger = make_scheduler()
    ledger.before_claim = [take(fleet, 0, 3)]
    decision = scheduler.select(request(), ["one"]).decision
    assert [each.host for each in decision.selections] == ["b"]
    assert fleet.reread_nodes == [{("a", "a")}]
    assert scheduler.refusals == 1
    assert fleet.seen.vcpus_used.tolist() == [3, 2]


def test_all_instances_of_a_request_are_claimed_together():
    scheduler, fleet, ledger = make_scheduler()
    ledger.before_claim = [take(fleet, 0, 1)]
    scheduler.select(request(), ["one", "two", "three"][:2])
    assert len(ledger.claims) == 2
    assert fleet.truth.vcpus_used.sum() == 5


def test_no_valid_host_is_said_of_a_picture_that_was_looked_at_after_the_last_refusal():
    scheduler, fleet, ledger = make_scheduler()
    ledger.before_claim = [take(fleet, 0, 4), take(fleet, 1, 4)]
    with pytest.raises(NoValidHost) as nowhere:
        scheduler.select(request(), ["one"])
    assert scheduler.refusals == 2
    assert nowhere.value.rounds == 3
    assert ledger.claims == []


def test_a_stale_picture_is_no_reason_to_say_no():
    scheduler, fleet, _ = make_scheduler()
    scheduler.select(request(), ["first"])
    for row in (0, 1):
        fleet.seen.consume(row, make_spec(vcpus=2, memory_mb=1))
        fleet.seen.consume(row, make_spec(vcpus=2, memory_mb=1))
    assert scheduler.select(request(), ["one"]).decision.is_placed


def test_a_picture_that_is_too_old_is_looked_at_before_anything_is_chosen():
    scheduler, fleet, _ = make_scheduler(longest_age_seconds=0.5)
    take(fleet, 0, 4)()
    assert [each.host for each in scheduler.select(request(), ["one"]).decision.selections] == ["b"]
    assert scheduler.refusals == 0


def test_a_young_picture_is_used_as_it_is():
    scheduler, fleet, _ = make_scheduler()
    for number in range(3):
        scheduler.select(request(1), [f"vm{number}"])
    assert fleet.looks == 1
    assert fleet.flag_looks == 2, "not for the first request, which has read everything"


def test_who_does_not_look_again_before_a_refusal_reads_no_flags_either():
    scheduler, fleet, _ = make_scheduler(refreshes_before_refusal=False)
    for number in range(3):
        scheduler.select(request(1), [f"vm{number}"])
    assert (fleet.looks, fleet.flag_looks) == (1, 0)


def test_after_an_answer_it_looks_so_that_the_next_request_need_not():
    scheduler, fleet, _ = make_scheduler(longest_age_seconds=8)
    first = scheduler.select(request(1), ["one"])
    scheduler.warm(first)
    assert fleet.looks == 1, "young enough for the next"
    scheduler._clock.now += 4
    scheduler.warm(first)
    assert fleet.looks == 2
    scheduler._clock.now += 4
    scheduler.select(request(1), ["two"])
    assert fleet.looks == 2


def test_who_looks_at_every_request_does_not_look_after_it():
    scheduler, fleet, _ = make_scheduler(longest_age_seconds=0)
    scheduler.warm(scheduler.select(request(1), ["one"]))
    assert fleet.looks == 1


def test_after_an_answer_what_is_kept_for_the_next_request_is_brought_up_to_date():
    scheduler, fleet, _ = make_scheduler()
    placement = scheduler.select(request(1), ["one"])
    placement = scheduler.select(request(1), ["two"])
    (family,) = scheduler.chooser.engine._cache._families.values()
    assert family._version < fleet.seen.changes.version
    scheduler.warm(placement)
    assert family._version == fleet.seen.changes.version
    assert family.class_of(request(1))._version == fleet.seen.changes.version


def test_a_database_that_is_gone_after_an_answer_is_the_next_requests_business(monkeypatch):
    scheduler, fleet, ledger = make_scheduler(longest_age_seconds=8)
    first = scheduler.select(request(1), ["one"])
    ledger.error = DatabaseUnreachable("gone")
    with pytest.raises(DatabaseUnreachable):
        scheduler.select(request(), ["two"])
    with monkeypatch.context() as patch:
        patch.setattr(fleet, "refresh", lambda also: (_ for _ in ()).throw(DatabaseUnreachable("still")))
        scheduler.warm(first)
    scheduler.warm(first)
    assert fleet.reread_nodes == [{("a", "a")}], "what was not claimed is still to be read anew"


def test_an_answer_without_hosts_leaves_nothing_to_get_ready_for():
    scheduler, _, _ = make_scheduler()
    scheduler.warm(scheduler.select(request(1), []))


def test_it_gives_up_after_so_many_rounds(monkeypatch):
    monkeypatch.setattr(rounds, "MOST_ROUNDS", 5)
    scheduler, _, ledger = make_scheduler()
    ledger.error = ClaimRejected([Refusal("a", "a", "always full")])
    with pytest.raises(ClaimRejected, match="always full"):
        scheduler.select(request(), ["one"])
    assert scheduler.refusals == 5


def test_what_was_not_claimed_because_the_database_is_gone_is_read_anew_when_it_is_back():
    scheduler, fleet, ledger = make_scheduler()
    scheduler.select(request(1), ["first"])
    ledger.error = DatabaseUnreachable("gone")
    with pytest.raises(DatabaseUnreachable):
        scheduler.select(request(), ["one"])
    ledger.error = None
    scheduler.select(request(1), ["two"])
    assert fleet.reread_nodes == [{("a", "a")}]
    assert fleet.seen.vcpus_used.tolist() == [2, 0]


def test_a_look_that_fails_is_made_up_for_by_the_next(monkeypatch):
    scheduler, fleet, ledger = make_scheduler()
    ledger.error = DatabaseUnreachable("gone")
    with pytest.raises(DatabaseUnreachable):
        scheduler.select(request(), ["one"])
    with monkeypatch.context() as patch:
        patch.setattr(fleet, "refresh", lambda also: (_ for _ in ()).throw(DatabaseUnreachable("still")))
        with pytest.raises(DatabaseUnreachable, match="still"):
            scheduler.select(request(), ["one"])
    ledger.error = None
    scheduler.select(request(1), ["two"])
    assert fleet.reread_nodes == [{("a", "a")}]


def test_no_valid_host_is_not_said_because_of_one_who_gets_nothing():
    """Room for four, and we think for five: who asks for five is refused, and who asks for four meanwhile waits."""
    fleet = Fleet(**HOSTS | {"vcpus_total": [4, 1]})
    scheduler, _, ledger = make_scheduler(fleet)
    fleet.truth.consume(1, make_spec(vcpus=1, memory_mb=10, instance_uuid="other"))
    scheduler._refreshed_at = 0.0  # a moment ago
    is_claiming, may_go_on, said = threading.Event(), threading.Event(), {}

    def hold():
        is_claiming.set()
        assert may_go_on.wait(30)

    def ask(name, count):
        try:
            said[name] = scheduler.select(
                request(1), [f"{name}{number}" for number in range(count)]
            ).decision.is_placed
        except NoValidHost:
            said[name] = False

    ledger.before_claim = [hold]
    threads = [threading.Thread(target=ask, args=pair) for pair in (("greedy", 5), ("modest", 4))]
    threads[0].start()
    assert is_claiming.wait(30)
    threads[1].start()
    while not scheduler._flights._waiters:
        assert threads[1].is_alive(), said
    may_go_on.set()
    for thread in threads:
        thread.join(30)
    assert said == {"greedy": False, "modest": True}


def test_members_that_joined_elsewhere_count():
    scheduler, fleet, ledger = make_scheduler(filters=[ServerGroupAntiAffinityFilter()])
    fleet.truth.consume(0, make_spec(vcpus=1, memory_mb=10, instance_uuid="member"))
    ledger.members["g"] = ("member",)
    spec = request(instance_group=ServerGroup("anti-affinity", uuid="g"))
    decision = scheduler.select(spec, ["one"]).decision
    assert [each.host for each in decision.selections] == ["b"]


def test_a_rebuild_claims_nothing_and_consumes_nothing():
    scheduler, fleet, ledger = make_scheduler()
    spec = request(scheduler_hints={"_nova_check_type": ["rebuild"]}, instance_uuid="one")
    scheduler.select(spec, ["one"])
    assert ledger.claims == []
    assert fleet.seen.vcpus_used.sum() == 0


@pytest.mark.parametrize("uuids", [["one", "two"], None])
def test_a_dry_run_claims_nothing_and_gives_back_what_it_chose(uuids):
    scheduler, fleet, ledger = make_scheduler()
    for _ in range(5):
        decision = scheduler.select(request(num_instances=2), uuids, is_dry_run=True).decision
        assert [each.host for each in decision.selections] == ["a", "a"]
    assert ledger.claims == []
    assert fleet.seen.vcpus_used.sum() == 0
