# SPDX-License-Identifier: Apache-2.0
"""The store as a fleet file: reads well, and comes back as the same."""

import random
import re
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from tests.parity import random_fleets
from tests.store.fleets import (
    HOST,
    INSTANCE,
    LATER,
    NOW,
    UUID,
    bring,
    changes_since,
    claim,
    document,
    one_host,
    tables,
    wipe,
    write,
)

from roost.hosts import HostRecord, HostTable
from roost.hosts.encoded import freeze
from roost.model import Service
from roost.records.fleet_export import export_fleet
from roost.records.fleet_import import import_fleet
from roost.sources.fleet_file import Fleet
from roost.store.schema.fleet import aggregate_hosts, aggregates
from roost.store.schema.fleet import services as services_table
from roost.store.schema.servers import images as images_table
from roost.store.schema.servers import server_groups
from roost.store.schema_upgrade import upgrade

SEEDS = range(8)
EVERYTHING = (
    {
        "host": "x",
        **HOST,
        "node": "n",
        "uuid": UUID % 40,
        "cell": "cell2",
        "vcpus_used": 3,
        "free_ram_mb": -512,
        "free_disk_mb": 1024 * 33,
        "cpu_allocation_ratio": 1.5,
        "reserved_vcpus": 1,
        "reserved_disk_gb": 3,
        "num_instances": 7,
        "num_io_ops": 2,
        "failed_builds": 0,
        "hypervisor_type": None,
        "hypervisor_version": 8002000,
        "host_ip": "10.0.0.1",
        "supported_instances": [["x86_64", "kvm", "hvm"]],
        "cpu_info": {"arch": "x86_64", "features": ["avx"]},
        "cpu_info_is_dict": True,
        "stats": {"num_instances": "5", "io_workload": 3, "other": [1, 2.0, None]},
        "metrics": [{"name": "cpu.percent", "value": 0.295}, {"name": "x", "value": 1.5, "source": "s"}],
        "service": {"disabled": True, "disabled_reason": "broken", "forced_down": True},
        "instances": [{**INSTANCE, "uuid": UUID % 21}, UUID % 22],
        "traits": ["CUSTOM_B", "CUSTOM_A"],
        "trust_level": "trusted",
        "resources": {
            "PGPU": {
                "total": 8,
                "reserved": 1,
                "allocation_ratio": 2.0,
                "min_unit": 2,
                "max_unit": 4,
                "step_size": 2,
            },
            "VCPU": {"total": 4, "max_unit": 3},
        },
        "pci_pools": [{"vendor_id": "10de", "product_id": "1eb8", "count": 2, "numa_node": 0, "tags": ["a", "b"]}],
        "numa": {
            "cells": [
                {
                    "id": 0,
                    "cpuset": [0, 1],
                    "pcpuset": [2, 3],
                    "memory": 4096,
                    "siblings": [[0, 1], [2, 3]],
                    "mempages": [{"size_kb": 4, "total": 1024, "used": 1}],
                    "socket": 0,
                    "physnets": ["p1"],
                    "tunneled": True,
                }
            ]
        },
        "allocation_candidates": [{"mappings": {"r": ["p"]}}],
    },
    {"host": "y", "metrics": None, "cpu_info": "", "service": {"seconds_since_seen": 61.25}},
    {"host": "z", "metrics": [], "cpu_info": '{"arch": "x86_64"}', "service": {"up": False}},
)
WHOLE = document(hosts=[*document()["hosts"], *EVERYTHING])


@pytest.fixture
def store(current):
    yield current
    wipe(current)


@pytest.fixture
def twins(databases, kind, opened):
    """Two stores that have never held anything: numbers start at 1 in both."""
    engines = [opened(databases.create(kind)) for _ in range(2)]
    for engine in engines:
        upgrade(engine)
    return engines


def test_a_plain_host_is_a_plain_entry(store):
    bring(store, one_host())
    assert export_fleet(store, NOW) == one_host()


def test_an_empty_store_is_an_empty_file(store):
    assert export_fleet(store, NOW) == {}


def test_what_was_left_out_stays_left_out(store):
    fleet = document()
    bring(store, fleet)
    found = export_fleet(store, NOW)
    a = {"host": "a", **HOST, "traits": ["CUSTOM_A", "HW_CPU_X86_AVX2"]}
    instance = {**INSTANCE, "flavor_id": found["flavors"][0]["id"]}
    instance["resources"] = dict(sorted(INSTANCE["resources"].items()))
    assert found["hosts"][0] == {**a, "instances": [instance, UUID % 2]}
    assert found["hosts"][1] == fleet["hosts"][1]
    assert found["hosts"][3] == fleet["hosts"][3]
    assert found["aggregates"] == fleet["aggregates"]
    assert found["server_groups"] == fleet["server_groups"]
    assert {entry["name"]: entry.get("id") for entry in found["images"]} == {"debian": None, "other": "image-1"}


def test_every_field_of_a_host_comes_back(store):
    bring(store, {"hosts": list(EVERYTHING)})
    exported = export_fleet(store, NOW)["hosts"]
    assert_same_tables(Fleet.load({"hosts": list(EVERYTHING)}), Fleet.load({"hosts": exported}))
    given, found = EVERYTHING[0], exported[0]
    as_given = given.keys() - {"traits", "metrics", "numa", "resources", "instances", "reserved_vcpus", "pci_pools"}
    assert {name: found[name] for name in as_given} == {name: given[name] for name in as_given}
    assert found["resources"]["PGPU"] == given["resources"]["PGPU"]


def test_an_export_into_an_empty_store_gives_the_same_contents(twins):
    store, twin = twins
    bring(store, WHOLE)
    bring(twin, export_fleet(store, LATER), LATER)
    assert without_times(tables(twin)) == without_times(tables(store))
    assert export_fleet(twin, LATER) == export_fleet(store, LATER)


def test_an_export_into_its_own_store_changes_nothing(store):
    bring(store, WHOLE)
    before = tables(store)
    bring(store, export_fleet(store, LATER), LATER)
    assert tables(store) == before


def test_what_was_claimed_since_is_an_instance_in_the_file(store):
    bring(store, one_host())
    claim(store, UUID % 9, "a", {"VCPU": 2})
    entry = export_fleet(store, NOW)["hosts"][0]
    assert entry["instances"] == [{"uuid": UUID % 9, "resources": {"VCPU": 2}}]


def test_a_service_is_as_old_as_its_last_heartbeat(store):
    bring(store, one_host())
    write(store, services_table.update().values(is_static=False, last_seen_up=NOW - timedelta(seconds=12.5)))
    assert export_fleet(store, NOW)["hosts"][0]["service"] == {"seconds_since_seen": 12.5}


def test_images_and_groups_that_share_a_name_go_by_their_ids(store):
    images = images_table.insert()
    write(store, images.values(id="i1", name="same"), images.values(id="i2", name="same"))
    groups = server_groups.insert()
    write(store, *(groups.values(uuid=UUID % at, name="g", policy="affinity") for at in (1, 2)))
    found = export_fleet(store, NOW)
    assert [(each["name"], each["id"]) for each in found["images"]] == [("same", "i1"), ("", "i2")]
    assert len(Fleet.load(found).images) == len(Fleet.load(found).server_groups) == 2


def test_a_host_of_an_aggregate_that_is_not_there_is_not_named(store):
    bring(store, document())
    number = one_aggregate(store)
    write(store, aggregate_hosts.insert().values(aggregate_id=number, host="gone"))
    assert Fleet.load(export_fleet(store, NOW)).table


def one_aggregate(engine):
    with engine.connect() as connection:
        return connection.scalar(aggregates.select().with_only_columns(aggregates.c.id).limit(1))


@pytest.mark.parametrize("seed", SEEDS)
def test_random_fleets_come_back_as_the_same_columns(store, seed):
    fleet = random_fleet(random.Random(seed))
    import_fleet(store, fleet, NOW)
    exported = export_fleet(store, NOW)
    assert_same_tables(fleet, Fleet.load(exported))
    before = tables(store)
    known = len(changes_since(store))
    bring(store, exported)
    assert tables(store) == before
    assert len(changes_since(store)) == known


def random_fleet(dice):
    """Few hosts, with everything that a report may say; what is on them is on no other."""
    shape = random_fleets.make_fleet(dice, ("resources", "instances", "service", "pci_pools", "numa"), ("ssd",))
    records, services = [], {}
    for at, record in enumerate(random_fleets.make_records(dice, shape)[:12]):
        instances = tuple(replace(each, uuid=f"{each.uuid}-{at}") for each in record.instances)
        service = services.setdefault(record.host, record.service)
        records.append(replace(record, instances=instances, service=service))
    table = HostTable.of(records)
    return Fleet(table, runs=tuple((record, [(record.host, record.nodename)]) for record in records))


def assert_same_tables(original, exported):
    """All columns; disks to the whole GiB, services by what becomes of them."""
    one, other = original.table, exported.table
    assert one.names == other.names
    assert one.numbers.keys() == other.numbers.keys()
    for name, column in one.numbers.items():
        expected = column
        if name == "free_disk_mb":
            expected = column // 1024 * 1024
        elif name == "disk_mb_used":
            expected = 1024 * one.numbers["total_usable_disk_gb"] - one.numbers["free_disk_mb"] // 1024 * 1024
        np.testing.assert_array_equal(expected, other.numbers[name], err_msg=name)
    assert one.encoded.keys() == other.encoded.keys()
    for name, column in one.encoded.items():
        for row in range(len(one)):
            assert seen(name, column.at(row)) == seen(name, other.encoded[name].at(row)), (name, one.names[row])
    for row in range(len(one)):
        mine, theirs = one.instances.get(row, {}), other.instances.get(row, {})
        assert {uuid: (each.project_id, dict(each.resources)) for uuid, each in mine.items()} == {
            uuid: (each.project_id, dict(each.resources)) for uuid, each in theirs.items()
        }


def seen(name, value):
    if isinstance(value, Service):
        return value.disabled, value.disabled_reason, value.forced_down, value.is_up(60)
    if name == "aggregates":
        return {each.name: dict(each.metadata) for each in value}
    return freeze(value)


def without_times(found):
    """Everything but when it was written; the times that mean something stay."""
    gone = re.compile(r'"(created_at|updated_at)": ("[^"]*"|null)')
    return {name: sorted(gone.sub("", row) for row in rows) for name, rows in found.items() if name != "changes"}


def test_the_helpers_notice_a_difference():
    records = [HostRecord("a", vcpus_total=1), HostRecord("a", vcpus_total=2)]
    one, other = (Fleet(HostTable.of([record])) for record in records)
    with pytest.raises(AssertionError):
        assert_same_tables(one, other)
