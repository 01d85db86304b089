# SPDX-License-Identifier: Apache-2.0
import pytest
from tests.unit.ledger.units import claim, class_capacity, node, unit_of_work, used

from roost.errors import AlreadyClaimed, BadInput, ClaimRejected, Refusal
from roost.hosts.guests import Guest
from roost.hosts.pci import pools_from_json
from roost.ledger.claim import Claim
from roost.ledger.operations import ClaimAll, Release
from roost.ledger.unit_of_work import Consumer, UnitOfWork
from roost.model.resources import Use


def test_a_claim_allocates_and_a_release_deallocates():
    work = unit_of_work(node(1))
    ClaimAll((claim("a", 1, 3, MEMORY_MB=1000),)).apply(work)
    assert (used(work, 1), used(work, 1, "MEMORY_MB")) == (3, 1000)
    assert work.nodes["n1"].free == Use(3584, 90, 1)
    assert Release(("a", "stranger")).apply(work) == 1
    assert (used(work, 1), used(work, 1, "MEMORY_MB")) == (0, 0)
    assert work.nodes["n1"].free == Use(4096, 100, 4)


@pytest.mark.parametrize(
    ("amounts", "why"),
    [
        ({"VCPU": 5}, "5 vcpu asked; 4 of 4 left"),
        ({"MEMORY_MB": 4097}, "4097 MiB ram asked; 4096 of 4096 left"),
        ({"CUSTOM_GOLD": 1}, "1 CUSTOM_GOLD asked; the host has none"),
        ({"CUSTOM_STEPS": 5}, "5 CUSTOM_STEPS asked; one instance may take 4 at most"),
        ({"CUSTOM_STEPS": 1}, "1 CUSTOM_STEPS asked; one instance must take 2 at least"),
        ({"CUSTOM_STEPS": 3}, "3 CUSTOM_STEPS asked; it is given out in steps of 2"),
    ],
)
def test_a_refusal_says_what_is_lacking(amounts, why):
    work = unit_of_work(node(1, CUSTOM_STEPS=class_capacity(10, max_unit=4, min_unit=2, step_size=2)))
    with pytest.raises(ClaimRejected) as caught:
        ClaimAll((Claim("a", "n1", amounts),)).apply(work)
    assert caught.value.refusals == (Refusal("h1", "h1", why),)


def test_the_last_unit_can_be_claimed_and_nothing_after_it():
    work = unit_of_work(node(1))
    ClaimAll((claim("a", 1, 3), claim("b", 1, 1))).apply(work)
    with pytest.raises(ClaimRejected):
        ClaimAll((claim("c", 1, 1),)).apply(work)


def test_all_of_a_request_or_nothing_and_every_refusal_is_named():
    work = unit_of_work(node(1), node(2), node(3, vcpus=1))
    before = [each.capacity for each in work.nodes.values()]
    with pytest.raises(ClaimRejected) as caught:
        ClaimAll((claim("a", 1, 4), claim("b", 2, 5), claim("c", 3, 2))).apply(work)
    assert [refusal.host for refusal in caught.value.refusals] == ["h2", "h3"]
    assert [each.capacity for each in work.nodes.values()] == before
    assert work.consumer_with_allocations("a") is None


def test_a_claim_that_is_repeated_changes_nothing():
    work = unit_of_work(node(1))
    for _ in range(3):
        ClaimAll((claim("a", 1, 4),)).apply(work)
    assert used(work, 1) == 4


@pytest.mark.parametrize("other", [claim("a", 2, 1), claim("a", 1, 2)])
def test_a_claim_for_a_consumer_with_other_allocations_is_an_error(other):
    work = unit_of_work(node(1), node(2))
    ClaimAll((claim("a", 1, 1),)).apply(work)
    with pytest.raises(AlreadyClaimed, match="consumer a holds resources on h1 already"):
        ClaimAll((claim("b", 1, 1), other)).apply(work)
    assert (used(work, 1), used(work, 2)) == (1, 0)


def test_a_claim_on_a_node_that_was_deleted_is_refused():
    with pytest.raises(ClaimRejected, match="host n9: the node was deleted, or belongs") as caught:
        ClaimAll((claim("a", 9),)).apply(unit_of_work(node(1)))
    assert [refusal.is_deleted for refusal in caught.value.refusals] == [True]


def test_a_bare_metal_node_goes_as_a_whole_and_once():
    work = unit_of_work(node(1, is_bare_metal=True, CUSTOM_BAREMETAL=class_capacity(1)))
    ClaimAll((Claim("a", "n1", {"CUSTOM_BAREMETAL": 1}),)).apply(work)
    assert work.consumers["a"].allocations == {1: {"VCPU": 4, "MEMORY_MB": 4096, "CUSTOM_BAREMETAL": 1}}
    assert work.nodes["n1"].free == Use(0, 0, 0)
    with pytest.raises(ClaimRejected, match="host h1: the node is taken"):
        ClaimAll((Claim("b", "n1", {"CUSTOM_BAREMETAL": 1}),)).apply(work)
    Release(("a",)).apply(work)
    assert work.nodes["n1"].free == Use(4096, 100, 4)
    assert used(work, 1) == 0


def test_devices_without_any_amount_are_refused_because_no_release_would_find_them():
    work, devices = unit_of_work(node(1)), pools_from_json([{"vendor_id": "10de", "product_id": "1eb8", "count": 1}])
    with pytest.raises(BadInput, match="no amount of any resource class"):
        ClaimAll((Claim("a", "n1", {}, guest=Guest((), devices, "a")),)).apply(work)
    assert not work.consumer_with_allocations("a")


def test_a_bare_metal_node_that_is_reserved_by_now_is_refused():
    work = unit_of_work(node(1, vcpus=0, is_bare_metal=True, MEMORY_MB=class_capacity(0)))
    with pytest.raises(ClaimRejected, match="host h1: nothing of it is free"):
        ClaimAll((claim("a", 1),)).apply(work)
    assert not work.consumer_with_allocations("a")


def test_use_that_was_not_recorded_is_derived_from_the_allocation():
    guest = Consumer("old", allocations={1: {"VCPU": 2, "MEMORY_MB": 512, "DISK_GB": 7}})
    work = UnitOfWork([node(1, VCPU=class_capacity(4, used=2))], [guest])
    Release(("old",)).apply(work)
    assert work.nodes["n1"].free == Use(4608, 107, 6)
