# SPDX-License-Identifier: Apache-2.0
"""A dry run and the claim from the same state choose the same hosts, CPUs and devices."""

import random
import threading
from collections import Counter
from dataclasses import replace

import pytest
from tests.flow.cloud import Cloud, state_of
from tests.parity import random_fleets, random_requests

from roost.errors import BadInput, NoValidHost
from roost.hosts import HostTable
from roost.hosts.record import default_node_uuid
from roost.ledger.claim import GroupPlaces, HeldNode
from roost.model import ServerGroup
from roost.model.group import GROUP_POLICIES
from roost.records.fleet_import import import_fleet
from roost.scheduler.all_options import read_options
from roost.scheduler.build import Preparation, build_pipeline
from roost.scheduler.claiming import ClaimLoop
from roost.sources.fleet_file import Fleet

UUID = "6a0b7c1e-5ef2-4a3e-9d7b-%012d"
FLEETS, CASES = 20, 50
SETTINGS = read_options()


class StillReplica:
    """A table that nothing but the claim loop changes."""

    def __init__(self, table):
        self.table, self.lock = table, threading.RLock()

    def refresh(self, also=()):
        pass

    def refresh_flags(self):
        pass


class RememberingGranter:
    """Grants every claim, and remembers who holds what."""

    has_candidates = False

    def __init__(self, table):
        self.table, self.held, self.members = table, {}, {}

    def find_candidates(self, spec, table, is_last_look):
        return None

    def expect(self, claims):
        pass

    def claim(self, claims):
        names = {uuid: self.table.names[row] for row, uuid in self.table.uuids.items()}
        for each in claims:
            place = HeldNode(*names[each.node_uuid], dict(each.amounts), each.guest)
            self.held[each.consumer_uuid] = {each.node_uuid: place}
            if each.group is not None:
                self.members.setdefault(each.group.uuid, []).append(each.consumer_uuid)

    def claim_and_move(self, claims, moves):
        for each in moves:
            self.held.setdefault(each.migration_uuid, self.held[each.claim.consumer_uuid])
        self.claim([*claims, *(each.claim for each in moves)])

    def read_holdings(self, consumers):
        return {each: self.held[each] for each in consumers if each in self.held}

    def read_group_places(self, uuid):
        return GroupPlaces(self.members.get(uuid, []), [])


def random_records(dice):
    """Hosts with everything that reports may say; bare metal is empty, and what runs on a host is on no other."""
    shape = random_fleets.make_fleet(dice, ("resources", "instances", "service", "pci_pools", "numa"), ("ssd",))
    for at, record in enumerate(random_fleets.make_records(dice, shape)):
        is_metal = record.hypervisor_type == "ironic"
        instances = () if is_metal else tuple(replace(each, uuid=UUID % (at * 100 + n)) for n, each in
                                              enumerate(record.instances))  # fmt: skip
        yield replace(record, instances=instances, uuid=default_node_uuid(record.host, record.nodename))


class Cases:
    """Random requests on one fleet: new servers, members of groups, and servers that were placed before."""

    def __init__(self, seed, loop):
        self.dice, self.loop, self.placed = random.Random(seed), loop, []
        self.names, self.seed = list(loop.replica.table.names), seed
        self.groups = [ServerGroup(policy, uuid=UUID % (10**6 + at)) for at, policy in enumerate(GROUP_POLICIES)]

    def make(self, at):
        """A request, the uuids of its instances, and of which kind it is."""
        spec = random_requests.make_shape(self.dice, self.names, True, True)
        if spec.instance_group is not None or self.dice.random() < 0.1:
            spec = replace(spec, instance_group=self.dice.choice(self.groups))
        if self.placed and not spec.is_rebuild and self.dice.random() < 0.25:
            return replace(spec, num_instances=1), [self.dice.choice(self.placed)], "move"
        first = 10**9 + self.seed * 10**6 + at * 1000
        return spec, [UUID % (first + n) for n in range(spec.num_instances)], "new"

    def run(self, at):
        """The answer of a dry run, that of the claim afterwards, and what was asked for."""
        spec, uuids, kind = self.make(at)
        plan, real = (answer(self.loop, spec, uuids, is_dry_run) for is_dry_run in (True, False))
        if isinstance(real, list):
            self.placed += uuids
            kinds = [kind, "several"] if len(real) > 1 else [kind]
            kinds += ["numa"] * any(each[2] is not None for each in real) + ["pci"] * any(each[3] for each in real)
            return plan, real, [*kinds, "group"] if spec.instance_group else kinds
        return plan, real, ["no host"]


def answer(loop, spec, uuids, is_dry_run):
    """What `facts_of` says of the decision, or why there is none."""
    try:
        return facts_of(loop.select(spec, uuids, 2, is_dry_run=is_dry_run).decision)
    except (BadInput, NoValidHost) as error:
        return str(error)


def facts_of(decision):
    """Of each instance: host, NUMA topology, devices, alternates, and how many hosts each step left."""
    steps = [tuple(each)[:4] for each in decision.steps]
    return [(each.host, each.node, *placed_of(each), [other.host for other in each.alternates], steps)
            for each in decision.selections]  # fmt: skip


def placed_of(selection):
    placed = selection.placed
    return (None, ()) if placed is None else (placed.numa_topology, placed.pci_devices)


def test_the_hosts_are_the_same_in_1000_generated_cases():
    kinds = Counter()
    for seed in range(FLEETS):
        table = HostTable.of(list(random_records(random.Random(seed))))
        pipeline = build_pipeline(SETTINGS)
        loop = ClaimLoop(
            StillReplica(table),
            pipeline,
            RememberingGranter(table),
            preparation=Preparation(SETTINGS, pipeline.plugin_names),
            clock=lambda: 0.0,
            sleep=lambda seconds: None,
        )
        cases = Cases(seed, loop)
        for at in range(CASES):
            plan, real, found = cases.run(at)
            assert plan == real, (seed, at)
            kinds.update(found)
    assert min(kinds[each] for each in ("new", "move", "several", "numa", "pci", "group", "no host")) > 20, kinds


@pytest.mark.parametrize("seed", range(2))
def test_the_hosts_are_the_same_with_a_ledger(tmp_path, seed):
    cloud = Cloud(tmp_path, {})
    records = list(random_records(random.Random(seed)))
    runs = tuple((record, [(record.host, record.nodename)]) for record in records)
    import_fleet(cloud.engine, Fleet(HostTable.of(records), runs=runs), cloud.clock.now())
    loop = cloud.manager().claims
    loop.refresh()
    cases = Cases(seed, loop)
    for at in range(20):
        cloud.clock.seconds += 1  # so that both begin with what the ledger has
        plan, real, _ = cases.run(at)
        assert plan == real, at
    cloud.close()


def test_the_comparison_sees_what_a_claim_takes():
    table = HostTable.of(list(random_records(random.Random(1))))
    before = state_of(table)
    loop = ClaimLoop(StillReplica(table), build_pipeline(SETTINGS), RememberingGranter(table), clock=lambda: 0.0)
    cases = Cases(1, loop)
    assert any(isinstance(cases.run(at)[1], list) for at in range(10))
    assert state_of(table) != before
