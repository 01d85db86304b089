# SPDX-License-Identifier: Apache-2.0
"""Random sequences of operations of the ledger, compared with a plain model after every step."""

import datetime
import random
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, Engine, insert
from tests.soak.clients import BrokenPromise, Figures, Progress, demand, named, no_progress
from tests.soak.ledger_model import Model, migration_of
from tests.soak.looking import HELD, check_counts, open_own, rows_of

from roost.errors import AlreadyClaimed, ClaimRejected, UnknownName
from roost.ledger.audit import audit
from roost.ledger.claim import Claim, StrictGroup
from roost.ledger.ledger import Ledger
from roost.model.resources import Use
from roost.scheduler.rounds import plan_claims, read_held
from roost.store.engine import open_engine
from roost.store.options import DatabaseOptions
from roost.store.schema.fleet import compute_nodes, inventories
from roost.store.schema_upgrade import upgrade

STEPS = 30
INSTANCES = 5
CAPACITY = (6, 4, 4, 3, 6)
"""vCPUs of each node; the last two are on one host."""
MEMORY_PER_VCPU_MB = 512
SLOTS = """
    SELECT s.host, s.slot, s.consumer_uuid FROM server_group_slots s JOIN server_groups g ON g.id = s.group_id
     WHERE g.policy = 'anti-affinity'
"""
BOUND = "SELECT h.host FROM server_group_hosts h JOIN server_groups g ON g.id = h.group_id"


def prepare(engine: Engine) -> dict[str, str]:
    """Tables and nodes: node uuid -> host."""
    upgrade(engine)
    hosts = {str(uuid.UUID(int=number)): f"h{min(number, 4)}" for number in range(1, len(CAPACITY) + 1)}
    with engine.begin() as connection:
        for number, (vcpus, (node, host)) in enumerate(zip(CAPACITY, hosts.items(), strict=True), start=1):
            memory_mb = MEMORY_PER_VCPU_MB * vcpus
            size = {"vcpus": vcpus, "memory_mb": memory_mb, "free_ram_mb": memory_mb, "free_disk_gb": 100}
            names = {"id": number, "uuid": node, "host": host, "hypervisor_hostname": f"node{number}"}
            connection.execute(insert(compute_nodes), {**names, **size, "running_vms": 0})
            totals = {"VCPU": vcpus, "MEMORY_MB": memory_mb}
            rows = [{"node_id": number, "resource_class": name, "total": total} for name, total in totals.items()]
            connection.execute(insert(inventories), rows)
    return hosts


def run_sequences(address: str, count: int, seed: int, progress: Progress = no_progress) -> Figures:
    """So many sequences on one database, one after the other: figures, or BrokenPromise with the steps."""
    engine = open_engine(DatabaseOptions(connection=address), may_create=True)
    hosts, tally = prepare(engine), Counter[str]()
    with open_own(address).connect().execution_options(isolation_level="AUTOCOMMIT") as own:
        ledger = Ledger(engine)
        for number in range(1, count + 1):
            Sequence(ledger, own, hosts, random.Random(f"{seed}.{number}")).run(tally)
            found = audit(engine, datetime.datetime.now(datetime.UTC), grace_seconds=0)
            wrong = [finding for finding in found if finding.kind not in ("leak", "migration")]
            demand(not wrong, f"sequence {seed}.{number}: the audit finds {named(wrong)}")
            progress(number)
    engine.dispose()
    return {"sequences": count, **dict(sorted(tally.items()))}


class Sequence:
    """One sequence, with instances and groups of its own; the ledger is empty at its end."""

    def __init__(self, ledger: Ledger, own: Connection, hosts: dict[str, str], chance: random.Random) -> None:
        self.ledger, self.own, self.chance, self.hosts = ledger, own, chance, hosts
        self.instances = [str(uuid.UUID(int=chance.getrandbits(128))) for _ in range(INSTANCES)]
        most = chance.choice((1, 2))
        self.model = Model(hosts, dict(zip(hosts, CAPACITY, strict=True)), most)
        self.groups = {
            "apart": StrictGroup(str(uuid.UUID(int=chance.getrandbits(128))), "anti-affinity", most),
            "together": StrictGroup(str(uuid.UUID(int=chance.getrandbits(128))), "affinity"),
        }
        self.steps: list[str] = []

    def run(self, tally: Counter[str]) -> None:
        """All steps, then the release of everything."""
        operations = (self.place, self.place, self.start, self.retarget, self.select, self.select)
        operations += (self.finish, self.undo, self.release, self.release_on)
        for _ in range(STEPS):
            operation = self.chance.choice(operations)
            tally[operation(self.choose_instance())] += 1
            self.check()
        self.ledger.release([each for one in self.instances for each in (one, migration_of(one))])
        self.model.held.clear()
        self.check()

    def choose_instance(self) -> str:
        """One that moves, every other time: most operations are about moves."""
        moving = [each for each in self.instances if self.model.of(migration_of(each))]
        return self.chance.choice(moving if moving and self.chance.random() < 0.5 else self.instances)

    # --- operations, each in the ledger and in the model: what came of it ---

    def place(self, instance: str) -> str:
        claim = self.make_claim(instance)
        return self.compare("place", claim, self.model.claim, lambda: self.ledger.claim([claim]))

    def start(self, instance: str) -> str:
        claim = self.make_claim(instance)
        move = migration_of(instance)
        return self.compare("start", claim, self.model.start, lambda: self.ledger.start_move(move, claim))

    def retarget(self, instance: str) -> str:
        claim = self.make_claim(instance)
        move = migration_of(instance)
        return self.compare("retarget", claim, self.model.retarget, lambda: self.ledger.retarget_move(move, claim))

    def select(self, instance: str) -> str:
        """As the scheduler does it: another host than those to ignore, whatever the instance holds."""
        claim, held = self.make_claim(instance), read_held(self.ledger, [instance])
        ignored = set(self.chance.sample(sorted(set(self.hosts.values())), self.chance.randint(0, 2)))
        ignored -= {self.hosts[claim.node_uuid]}
        plan = plan_claims([claim], held, ignored)

        def expect(instance: str, node: str, vcpus: int) -> Model | str:
            return self.model.place(instance, node, vcpus, ignored)

        return self.compare(f"select ignoring {ignored}", claim, expect, lambda: self.ledger.claim_and_move(*plan))

    def finish(self, instance: str) -> str:
        before = self.model
        self.model = before.finish(instance)
        done = self.ledger.finish_move(migration_of(instance))
        return self.report(f"finish {instance}", "finish", done, before)

    def undo(self, instance: str) -> str:
        before, after = self.model, self.model.undo(instance)
        try:
            done = self.ledger.undo_move(migration_of(instance), instance)
        except ClaimRejected as error:
            self.steps.append(f"undo {instance}: {error}")
            self.demand(before.may_refuse_for_affinity(instance), f"undo was refused: {error}")
            return "undo refused"
        self.model = after
        return self.report(f"undo {instance}", "undo", done, before)

    def release(self, instance: str) -> str:
        """Of an instance with its migration, or of the migration alone."""
        before, both = self.model, [instance, migration_of(instance)]
        consumers = self.chance.choice((both, both[1:]))
        self.model = before.copy()
        for each in consumers:
            self.model.put(each, {})
        return self.report(f"release {consumers}", "release", bool(self.ledger.release(consumers)), before)

    def release_on(self, instance: str) -> str:
        nodes, before = set(self.chance.sample(sorted(self.hosts), 2)), self.model
        self.model = before.release_on(instance, nodes)
        done = bool(self.ledger.release_on([instance, migration_of(instance)], nodes))
        return self.report(f"release {instance} on {sorted(nodes)}", "release_on", done, before)

    # --- comparison ---

    def make_claim(self, instance: str) -> Claim:
        vcpus, node = self.chance.randint(1, 3), self.chance.choice(list(self.hosts))
        group = self.chance.choice((None, None, "apart", "together"))
        amounts = {"VCPU": vcpus, "MEMORY_MB": MEMORY_PER_VCPU_MB * vcpus}
        use = Use(amounts["MEMORY_MB"], 0, vcpus)
        return Claim(instance, node, amounts, use, group=self.groups[group] if group else None)

    def compare(self, name: str, claim: Claim, expect: Callable[..., Model | str], do: Callable[[], object]) -> str:
        """Do it in the ledger, and compare what came of it with what the model expects."""
        instance, vcpus = claim.consumer_uuid, claim.amounts["VCPU"]
        expected = expect(instance, claim.node_uuid, vcpus)
        if isinstance(expected, Model) and claim.group and expected.held != self.model.held:
            (expected.apart if claim.group.policy == "anti-affinity" else expected.together).add(instance)
        came, why = outcome_of(do)
        word = name.partition(" ")[0]
        self.steps.append(f"{name} {instance} {self.hosts[claim.node_uuid]} {vcpus} {claim.group}: {came} {why}")
        if isinstance(expected, str):
            self.demand(came == expected, f"{expected} was expected")
        elif came == "refused":
            broken = list(expected.broken())
            is_affinity = "the affinity group" in why and expected.may_refuse_for_affinity(instance)
            self.demand(bool(broken) or is_affinity, f"refused, and the state would be fine: {why}")
        else:
            self.demand(came in ("done", "not done"), f"{expected.held} was expected")
            self.demand((came == "not done") <= (expected.held == self.model.held), "it says that nothing was done")
            self.model = expected
        return f"{word} {came}"

    def report(self, step: str, word: str, done: bool, before: Model) -> str:
        self.steps.append(f"{step}: {done}")
        self.demand(done == (self.model.held != before.held), f"it says {done}")
        return f"{word} {'done' if done else 'not done'}"

    def check(self) -> None:
        """Who holds what, sums, slots and bindings, by hand-written SQL."""
        broken = list(self.model.broken())
        self.demand(not broken, str(broken))
        self.check_held(self.own)
        self.check_groups(self.own)
        try:
            check_counts(self.own)
        except BrokenPromise as broken_counts:
            self.demand(False, str(broken_counts))

    def check_held(self, connection: Connection) -> None:
        found: dict[str, dict[str, int]] = {}
        for consumer, node, name, used in rows_of(connection, HELD):
            if name == "VCPU":
                found.setdefault(str(consumer), {})[str(node)] = int(used)
        self.demand(found == self.model.held, f"the ledger says {found}, the model {self.model.held}")

    def check_groups(self, connection: Connection) -> None:
        instance_of = {migration_of(each): each for each in self.instances}
        slots = [(host, int(slot), str(owner)) for host, slot, owner in rows_of(connection, SLOTS)]
        taken = sorted((host, instance_of.get(owner, owner)) for host, _, owner in slots)
        wanted = sorted((host, each) for each in self.model.apart for host in self.model.places(each))
        self.demand(taken == wanted, f"slots are {slots}, members are on {wanted}")
        over = [slot for slot in slots if slot[1] >= self.model.most_per_host]
        self.demand(not over, f"slots beyond the limit: {over}")
        bound = [str(host) for (host,) in rows_of(connection, BOUND)]
        homes = {host for each in self.model.together for host in self.model.homes(each)}
        self.demand(len(bound) == bool(homes) and set(bound) <= homes, f"bound to {bound}, members are on {homes}")

    def demand(self, is_kept: bool, seen: str) -> None:
        if not is_kept:
            demand(False, f"{seen}; after {chr(10).join(self.steps)}")


def outcome_of(do: Callable[[], Any]) -> tuple[str, str]:
    """What came of an operation, and the reason of a refusal."""
    try:
        done = do()
    except ClaimRejected as error:
        return "refused", str(error)
    except AlreadyClaimed:
        return "already", ""
    except UnknownName:
        return "unknown", ""
    return ("not done" if done is False else "done"), ""
