# SPDX-License-Identifier: Apache-2.0
"""An export while instances move: into its own database it changes nothing, into an empty one it is as full."""

import contextlib
import json
import random
from dataclasses import replace

import pytest
from sqlalchemy import select
from tests.flow.cloud import UUID, Cloud, hosts_of
from tests.store.fleets import bring, changes_since, tables, wipe, write

from roost import Flavor, NoValidHost, RequestSpec
from roost.ledger.audit import audit
from roost.ledger.ledger import Ledger
from roost.model.request import Destination
from roost.model.resources import move_of
from roost.records.fleet_export import export_fleet
from roost.store.schema.fleet import compute_nodes, inventories
from roost.store.schema_upgrade import upgrade

ALIAS = json.dumps({"name": "gpu", "vendor_id": "10de", "product_id": "1eb8", "device_type": "type-PCI"})
OPTIONS = {"pci": {"alias": [ALIAS]}}
GPUS = [{"vendor_id": "10de", "product_id": "1eb8", "count": 4, "numa_node": 0, "dev_type": "type-PCI"}]
CELL = {"id": 0, "cpuset": [8, 9], "pcpuset": [*range(8)], "memory": 16384, "siblings": []}
NUMA = {"cells": [CELL | {"mempages": [{"size_kb": 4, "total": 4194304}]}]}
RESOURCES = {"CUSTOM_LICENCE": {"total": 20}}
HOSTS = {name: {"numa": NUMA, "pci_pools": GPUS, "resources": RESOURCES} for name in "abc"}
METAL = {"metal": {"hypervisor_type": "ironic", "traits": ["CUSTOM_METAL"]}}
SPECS = (
    {"resources:CUSTOM_LICENCE": "2"},
    {"pci_passthrough:alias": "gpu:1"},
    {"hw:cpu_policy": "dedicated"},
    {"hw:cpu_policy": "dedicated", "pci_passthrough:alias": "gpu:2", "resources:CUSTOM_LICENCE": "1"},
    {"resources:VCPU": "1"},
    {"resources:DISK_GB": "0"},
)
FREE = ("vcpus_used", "memory_mb_used", "local_gb_used", "free_ram_mb", "free_disk_gb", "running_vms")
INSTANCE, MIGRATION = UUID % 1, move_of(UUID % 1)


@pytest.fixture
def store(current):
    yield current
    wipe(current)


@pytest.fixture
def new_store(databases, kind, opened):
    engine = opened(databases.create(kind))
    upgrade(engine)
    return engine


def cloud_on(engine, hosts=HOSTS, **sections):
    return Cloud(None, hosts, OPTIONS, engine=engine, **sections)


def asking(vcpus=2, memory_mb=1024, swap=0, **specs):
    return RequestSpec(flavor=Flavor(vcpus, memory_mb, root_gb=2, swap=swap, extra_specs=specs))


def on(spec, host):
    return replace(spec, requested_destination=Destination(host=host))


def audited(cloud):
    """Findings of the audit; no claim is old enough to be a leak."""
    return [(each.kind, each.subject, each.detail) for each in audit(cloud.engine, cloud.clock.now(), 3600)]


def check_round_trips(cloud, twin=None):
    """The export changes nothing in its own database, and gives the same free amounts in an empty one."""
    engine, now = cloud.engine, cloud.clock.now()
    before, changes, findings = tables(engine), changes_since(engine), audited(cloud)
    exported = export_fleet(engine, now)
    bring(engine, json.loads(json.dumps(exported)), now)
    after = tables(engine)
    assert {*before.pop("servers")} <= {*after.pop("servers")}, "listed instances become servers; known ones stay"
    assert {name: after[name] for name in after if after[name] != before[name]} == {}
    assert changes_since(engine) == changes
    assert audited(cloud) == findings
    assert {kind for kind, _, _ in findings} <= {"elsewhere"}, "the server on the source of a move"
    if twin is not None:
        bring(twin, exported, now)
        assert free_amounts(twin) == free_amounts(engine)
        assert without_ids(export_fleet(twin, now)) == without_ids(exported)


def without_ids(exported):
    """Ids of flavors are row ids."""
    return exported | {"flavors": None}


def free_amounts(engine):
    """Host -> used and free amounts, NUMA cells and PCI devices, and what is used of each resource class."""
    table, found = compute_nodes.c, {}
    with engine.connect() as connection:
        columns = (*(table[name] for name in FREE), table.numa_topology, table.pci_stats)
        for host, *values in connection.execute(select(table.host, *columns)):
            found[host] = values
        used = inventories.c
        joined = select(table.host, used.resource_class, used.used).join(inventories, used.node_id == table.id)
        for host, name, amount in sorted(tuple(row) for row in connection.execute(joined)):
            found[host].append((name, amount))
    return found


def place(cloud, spec, uuid=INSTANCE):
    return hosts_of(cloud.manager().claims.select(spec, [uuid]))[0]


def test_a_move_under_way(store, new_store):
    cloud = cloud_on(store)
    place(cloud, on(asking(), "a"))
    place(cloud, on(asking(), "b"))
    assert cloud.held(INSTANCE, MIGRATION) == {INSTANCE: ["b"], MIGRATION: ["a"]}
    check_round_trips(cloud, new_store)
    entry = export_fleet(store, cloud.clock.now())["hosts"][0]
    amounts = {"DISK_GB": 2, "MEMORY_MB": 1024, "VCPU": 2}
    assert entry["migrations"] == [{"uuid": MIGRATION, "instance": INSTANCE, "resources": amounts}]
    assert not entry.keys() & {"vcpus_used", "free_ram_mb", "free_disk_mb", "num_instances", "allocations"}


def test_the_move_can_be_ended_in_the_other_database(store, new_store):
    cloud = cloud_on(store)
    place(cloud, on(asking(), "a"))
    empty = free_amounts(store)["b"]
    place(cloud, on(asking(), "b"))
    bring(new_store, export_fleet(store, cloud.clock.now()))
    assert Ledger(new_store).undo_move(MIGRATION, INSTANCE)
    assert free_amounts(new_store)["b"] == empty


def test_a_move_of_an_instance_that_a_fleet_file_brought(store, new_store):
    """Its server is on the source, which lists it without resources."""
    listed = {"uuid": INSTANCE, "resources": {"VCPU": 2, "MEMORY_MB": 1024}}
    cloud = cloud_on(store, HOSTS | {"a": {**HOSTS["a"], "instances": [listed]}})
    place(cloud, on(asking(4), "b"))
    assert cloud.held(INSTANCE, MIGRATION) == {INSTANCE: ["b"], MIGRATION: ["a"]}
    check_round_trips(cloud, new_store)
    first = export_fleet(store, cloud.clock.now())["hosts"][0]
    assert ["resources" in each for each in (*first["instances"], *first["migrations"])] == [False, True]
    assert "num_instances" not in first


def test_an_older_export_of_such_a_move(store):
    """The figures count what the listed instance uses, whichever consumer holds it."""
    listed = {"uuid": INSTANCE, "resources": {"VCPU": 2, "MEMORY_MB": 1024}}
    cloud = cloud_on(store, HOSTS | {"a": {**HOSTS["a"], "instances": [listed]}})
    place(cloud, on(asking(4), "b"))
    before, exported = tables(store), export_fleet(store, cloud.clock.now())
    first = exported["hosts"][0]
    del first["migrations"]
    for figures in ({}, {"vcpus_used": 2, "free_ram_mb": 31744}):
        first |= figures
        bring(store, exported, cloud.clock.now())
        assert tables(store) == before


@pytest.mark.parametrize("specs", SPECS, ids=str)
def test_a_resize_on_one_host_under_way(store, new_store, specs):
    cloud = cloud_on(store)
    place(cloud, on(asking(2, **specs), "a"))
    place(cloud, on(asking(3, 2048, 512, **specs), "a"))
    assert cloud.held(INSTANCE, MIGRATION) == {INSTANCE: ["a"], MIGRATION: ["a"]}
    check_round_trips(cloud, new_store)


def test_a_bare_metal_node(store, new_store):
    cloud = cloud_on(store, HOSTS | METAL)
    place(cloud, asking(**{"trait:CUSTOM_METAL": "required"}))
    place(cloud, on(asking(), "b"))
    assert cloud.held(INSTANCE, MIGRATION) == {INSTANCE: ["b"], MIGRATION: ["metal"]}
    check_round_trips(cloud, new_store)


@pytest.mark.parametrize("seed", range(6))
def test_random_claims_and_moves(store, new_store, seed):
    dice = random.Random(seed)
    cloud = cloud_on(store)
    for _ in range(15):
        uuid = UUID % dice.randrange(1, 7)
        act_at_random(cloud, dice, uuid)
    check_round_trips(cloud, new_store)


def act_at_random(cloud, dice, uuid):
    end = dice.random()
    if end < 0.15:
        cloud.ledger.finish_move(move_of(uuid))
    elif end < 0.3:
        cloud.ledger.undo_move(move_of(uuid), uuid)
    else:
        spec = asking(dice.choice((1, 2, 3)), 512, dice.choice((0, 0, 1024)), **dice.choice(SPECS))
        ignored = tuple(dice.sample("abc", dice.randrange(3)))
        chosen = replace(spec, ignore_hosts=ignored) if dice.random() < 0.5 else on(spec, dice.choice("abc"))
        with contextlib.suppress(NoValidHost):
            place(cloud, chosen, uuid)


def test_a_node_with_fewer_devices_than_are_booked(store):
    """What is free does not say how many devices it has: they are not counted again."""
    cloud = cloud_on(store)
    place(cloud, on(asking(**{"pci_passthrough:alias": "gpu:2"}), "a"))
    fewer = [{**GPUS[0], "count": 1}]
    table = compute_nodes
    write(store, table.update().where(table.c.host == "a").values(pci_stats=[], base_pci_stats=fewer))
    before = tables(store)
    bring(store, export_fleet(store, cloud.clock.now()), cloud.clock.now())
    assert tables(store) | {"servers": []} == before


def test_an_older_export_does_not_list_migrations(store):
    """Its figures count them, and the database cannot know it: they are counted once more, as ever."""
    cloud = cloud_on(store)
    place(cloud, on(asking(), "a"))
    place(cloud, on(asking(), "b"))
    exported = export_fleet(store, cloud.clock.now())
    del exported["hosts"][0]["migrations"]
    bring(store, exported, cloud.clock.now())
    assert cloud.held(INSTANCE, MIGRATION) == {INSTANCE: ["b"], MIGRATION: ["a"]}
    assert audited(cloud) == []


def test_a_file_without_the_migration_adds_what_it_uses_of_each_node(store):
    """A migration that holds two hosts in two sizes: `uses` says what it uses of which."""
    cloud = cloud_on(store)
    plain = {"hosts": export_fleet(store, cloud.clock.now())["hosts"]}
    place(cloud, on(asking(1, 512), "a"))
    place(cloud, on(asking(2, 1024), "b"))
    place(cloud, on(asking(3, 2048), "c"))
    assert cloud.held(INSTANCE, MIGRATION) == {INSTANCE: ["c"], MIGRATION: ["a", "b"]}
    before = free_amounts(store)
    bring(store, plain, cloud.clock.now())
    assert free_amounts(store) == before
