# SPDX-License-Identifier: Apache-2.0
"""Reports that meet bookings of an instance that is resized on its host: what is in use is never free."""

import json

import pytest

from roost.hosts.guests import Guest, SpaceTexts, space_texts
from roost.hosts.pci import pools_from_json
from roost.model.numa import InstanceCell
from roost.records.node_writer import space_columns

NUMA = {"cells": [{"id": 0, "cpuset": [], "pcpuset": [0, 1, 2, 3], "memory": 16384, "memory_usage": 6144}]}


def pools(first, second):
    kind = {"vendor_id": "10de", "product_id": "1eb8", "dev_type": "type-PCI"}
    return [kind | {"numa_node": at, "count": count} for at, count in enumerate((first, second)) if count]


def guest(cpus, memory, first, second):
    pins = tuple(enumerate(cpus))
    cell = InstanceCell(0, frozenset(), frozenset(range(len(cpus))), memory, cpu_policy="dedicated", cpu_pinning=pins)
    return Guest((cell,), pools_from_json(pools(first, second)), "instance")


OLD, NEW = guest([0], 2048, 1, 0), guest([1, 2], 8192, 0, 1)
BARE = SpaceTexts(json.dumps(NUMA), json.dumps(pools(2, 2))).decode()
"""6 GiB are used by others than the ledger's consumers."""


def decoded(columns, prefix=""):
    return SpaceTexts(columns[f"{prefix}numa_topology"], columns[f"{prefix}pci_stats"]).decode()


@pytest.mark.parametrize("counted", [(OLD,), (NEW,), (OLD, NEW)])
def test_a_resize_on_the_same_host(counted):
    figures = space_texts(BARE.with_guests(counted))
    reported = {"numa_topology": figures.numa, "pci_stats": figures.pools}
    booked = {"migration": OLD.to_text(), "instance": NEW.to_text()}
    columns = space_columns(reported, booked, {"instance"})
    left, base, truth = decoded(columns), decoded(columns, "base_"), BARE.with_guests((OLD, NEW))
    for found, expected in ((left, truth), (base, BARE)):
        has = {pool.properties: pool.count for pool in expected.pools}
        assert all(pool.count <= has[pool.properties] for pool in found.pools)
        assert found.numa.cells[0].memory_usage >= expected.numa.cells[0].memory_usage
        assert found.numa.cells[0].pinned_cpus == expected.numa.cells[0].pinned_cpus


def test_one_booking_is_taken_off_whoever_holds_it():
    figures = space_texts(BARE.with_guest(OLD))
    reported = {"numa_topology": figures.numa, "pci_stats": figures.pools}
    for holder in ("instance", "migration"):
        columns = space_columns(reported, {holder: OLD.to_text()}, {"instance"})
        assert decoded(columns, "base_") == BARE
        assert decoded(columns) == BARE.with_guest(OLD)
