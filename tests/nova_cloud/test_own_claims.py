# SPDX-License-Identifier: Apache-2.0
"""Claims of this scheduler count on a node until its row was written after them."""

from datetime import UTC, datetime, timedelta

import pytest

from roost.hosts import HostRecord, Instance
from roost.hosts.guests import Guest
from roost.hosts.pci import pools_from_json
from roost.ledger.claim import Claim
from roost.model.resources import Use
from roost.nova.claims import LONGEST, OwnClaims

NOON = datetime(2026, 11, 17, 12, 0, 0, 300_000, tzinfo=UTC)
NODE, INSTANCE = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"
POOLS = [{"vendor_id": "10de", "product_id": "1eb8", "numa_node": None, "dev_type": "type-PCI", "count": 2}]


def record(**more):
    sizes = {"free_ram_mb": 8192, "free_disk_mb": 102400, "disk_mb_used": 0, "vcpus_used": 1, "num_instances": 1}
    return HostRecord("a", uuid=NODE, num_io_ops=0, pci_pools=pools_from_json(POOLS), **sizes | more)


def claimed(at=NOON):
    own = OwnClaims()
    one = Guest((), pools_from_json([{**POOLS[0], "count": 1}]), INSTANCE)
    own.add([Claim(INSTANCE, NODE, {"VCPU": 2}, Use(2048, 10, 2), "project", guest=one)], at)
    return own


def seconds(number):
    return NOON + timedelta(seconds=number)


def test_a_claim_is_added_as_the_table_would_consume_it():
    found = claimed().added_to(record())
    assert (found.free_ram_mb, found.free_disk_mb, found.disk_mb_used) == (6144, 92160, 10240)
    assert (found.vcpus_used, found.num_instances, found.num_io_ops) == (3, 2, 1)
    assert [each.uuid for each in found.instances] == [INSTANCE]
    assert [pool.count for pool in found.pci_pools] == [1]


def test_an_instance_that_its_host_lists_is_not_listed_twice():
    assert len(claimed().added_to(record(instances=(Instance(INSTANCE),))).instances) == 1


def test_other_nodes_are_as_they_were():
    other = HostRecord("b", uuid=INSTANCE)
    assert claimed().added_to(other) is other


@pytest.mark.parametrize(
    ("written_at", "now", "counts"),
    [
        (seconds(-60), seconds(5), True),  # not written since
        (None, seconds(5), True),
        (NOON.replace(microsecond=0), seconds(1), True),  # in the same second: for another instance, perhaps
        (NOON.replace(microsecond=0), seconds(2), False),
        (seconds(1), seconds(2), False),
        (seconds(-60), NOON + LONGEST + timedelta(seconds=1), False),  # its build failed
    ],
)
def test_it_counts_until_the_row_was_written_after_it(written_at, now, counts):
    own = claimed()
    assert own.settle({NODE: written_at}.get, now) == (set() if counts else {NODE})
    assert (own.added_to(record()) != record()) is counts


def test_a_node_that_is_gone_keeps_no_claims_for_ever():
    own = claimed()
    own.settle({}.get, NOON + LONGEST + timedelta(seconds=1))
    assert own._by_node == {}
