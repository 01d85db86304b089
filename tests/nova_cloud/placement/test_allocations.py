# SPDX-License-Identifier: Apache-2.0
"""Claims in the real placement: all or nothing, once, and never more than there is."""

import threading
import uuid

import pytest
from tests.nova_cloud.placement.fault_proxy import conflict

from roost.errors import PlacementConflict, PlacementUnavailable
from roost.nova.placement.allocations import AllocationWriter
from roost.nova.placement.providers import ProviderReader
from roost.trial.private_servers import free_port


def refused(cloud, *requests):
    with pytest.raises(PlacementConflict) as caught:
        cloud.writer.claim(requests)
    return caught.value


def test_all_instances_of_a_request_are_claimed_in_one_call(cloud):
    one, other = cloud.add(), cloud.add()
    requests = [cloud.request(one, VCPU=2), cloud.request(one, VCPU=3), cloud.request(other, VCPU=1)]
    cloud.writer.claim(requests)
    assert len(cloud.proxy.of("POST", "/allocations")) == 1
    assert cloud.used(one)["VCPU"] == 5
    assert cloud.held(requests[2].consumer_uuid) == {other: {"VCPU": 1}}


def test_an_instance_without_room_leaves_the_others_unclaimed_too(cloud):
    one, other = cloud.add(), cloud.add()
    error = refused(cloud, cloud.request(one, VCPU=2), cloud.request(other, VCPU=17))
    assert (error.kind, error.providers) == ("capacity", tuple(sorted([one, other])))
    assert "would exceed the capacity" in str(error)
    assert cloud.used(one)["VCPU"] == 0


def test_an_amount_that_the_inventory_does_not_allow_is_a_lack_of_capacity(cloud):
    provider = cloud.add({"VCPU": {"total": 8, "max_unit": 2}})
    assert refused(cloud, cloud.request(provider, VCPU=3)).kind == "capacity"


def test_a_provider_that_was_deleted_is_a_lack_of_capacity(cloud):
    assert refused(cloud, cloud.request(str(uuid.uuid4()))).kind == "capacity"


def test_a_provider_that_moved_is_tried_again(cloud):
    provider = cloud.add()
    body = conflict("placement.concurrent_update", "another thread concurrently updated the data")
    cloud.proxy.add("POST", "/allocations", times=2, status=409, body=body, executes=False)
    cloud.writer.claim([cloud.request(provider, VCPU=2)])
    assert cloud.used(provider)["VCPU"] == 2
    assert len(cloud.pauses) == 2


def test_a_provider_that_keeps_moving_is_a_conflict_of_generations(cloud):
    provider = cloud.add()
    body = conflict("placement.concurrent_update", "another thread concurrently updated the data")
    cloud.proxy.add("POST", "/allocations", times=9, status=409, body=body, executes=False)
    assert refused(cloud, cloud.request(provider)).kind == "generation"
    assert len(cloud.proxy.of("POST", "/allocations")) == 4


def test_a_consumer_that_keeps_changing_is_a_conflict_of_consumers(cloud):
    provider = cloud.add()
    body = conflict("placement.concurrent_update", "consumer generation conflict - expected 3 but got 1")
    cloud.proxy.add("POST", "/allocations", times=9, status=409, body=body, executes=False)
    assert refused(cloud, cloud.request(provider)).kind == "consumer"


def test_an_evacuated_instance_holds_old_and_new_host_until_released(cloud):
    old, new = cloud.add(), cloud.add()
    first = cloud.request(old, VCPU=2)
    cloud.writer.claim([first])
    request = cloud.request(new, first.consumer_uuid, VCPU=2)
    grant = cloud.writer.claim([request])
    assert cloud.held(first.consumer_uuid) == {old: {"VCPU": 2}, new: {"VCPU": 2}}
    body = cloud.proxy.of("POST", "/allocations")[-1].body[first.consumer_uuid]
    assert "mappings" not in body
    assert body["consumer_generation"] == 1
    cloud.writer.release(grant)
    assert cloud.held(first.consumer_uuid) == {old: {"VCPU": 2}}


def test_a_released_claim_is_gone_and_may_be_released_twice(cloud):
    provider = cloud.add()
    grant = cloud.writer.claim([cloud.request(provider), cloud.request(provider)])
    cloud.writer.release(grant)
    cloud.writer.release(grant)
    assert cloud.used(provider)["VCPU"] == 0


def test_a_repeated_claim_is_kept_and_survives_a_release(cloud):
    provider = cloud.add()
    request = cloud.request(provider, VCPU=2)
    cloud.writer.claim([request])
    grant = cloud.writer.claim([request])
    assert grant.kept == {request.consumer_uuid}
    cloud.writer.release(grant)
    assert cloud.used(provider)["VCPU"] == 2


@pytest.mark.parametrize("status", [0, 500])
def test_a_claim_whose_answer_was_lost_is_found_and_not_repeated(cloud, status):
    provider = cloud.add()
    cloud.proxy.add("POST", "/allocations", status=status)
    grant = cloud.writer.claim([cloud.request(provider, VCPU=2), cloud.request(provider, VCPU=3)])
    assert cloud.used(provider)["VCPU"] == 5
    assert len(cloud.proxy.of("POST", "/allocations")) == 1
    cloud.writer.release(grant)
    assert cloud.used(provider)["VCPU"] == 0


def test_an_evacuation_whose_answer_was_lost_is_found(cloud):
    old, new = cloud.add(), cloud.add()
    first = cloud.request(old, VCPU=2)
    cloud.writer.claim([first])
    cloud.proxy.add("POST", "/allocations")
    grant = cloud.writer.claim([cloud.request(new, first.consumer_uuid, VCPU=2)])
    cloud.writer.release(grant)
    assert cloud.held(first.consumer_uuid) == {old: {"VCPU": 2}}


@pytest.mark.parametrize("status", [0, 503])
def test_a_claim_that_did_not_arrive_is_repeated(cloud, status):
    provider = cloud.add()
    cloud.proxy.add("POST", "/allocations", status=status, executes=False)
    cloud.writer.claim([cloud.request(provider, VCPU=2)])
    assert cloud.used(provider)["VCPU"] == 2


def test_a_claim_that_arrives_late_is_not_made_twice(cloud):
    """The first POST is still with placement when it is repeated."""
    provider, repeated = cloud.add(), threading.Event()
    writer = AllocationWriter(cloud.client, cloud.reader, sleep=lambda seconds: repeated.set())
    cloud.proxy.add("POST", "/allocations", late=repeated)
    writer.claim([cloud.request(provider, VCPU=2)])
    assert cloud.used(provider)["VCPU"] == 2


def test_without_placement_a_claim_fails(cloud):
    provider = cloud.add()
    cloud.proxy.add("POST", "/allocations", times=9, status=503, executes=False)
    with pytest.raises(PlacementUnavailable, match="placement answered 503"):
        cloud.writer.claim([cloud.request(provider)])
    assert len(cloud.proxy.of("POST", "/allocations")) == 2


def test_a_claim_that_overbooked_its_provider_is_taken_back(cloud):
    provider = cloud.add()
    cloud.reader.read_all()
    # As if another writer had been granted the same room at the same moment.
    cloud.proxy.add("POST", "/allocations", after=lambda: cloud.set_inventories(provider, {"VCPU": {"total": 1}}))
    error = refused(cloud, cloud.request(provider, VCPU=2))
    assert (error.kind, error.providers) == ("capacity", (provider,))
    assert "VCPU: 2 of 1 used" in str(error)
    assert cloud.used(provider)["VCPU"] == 0


def test_a_claim_stays_if_another_one_is_taken_back_first(cloud):
    provider = cloud.add()
    cloud.reader.read_all()
    cloud.proxy.add("POST", "/allocations", after=lambda: cloud.set_inventories(provider, {"VCPU": {"total": 1}}))
    more = {"VCPU": {"total": 2}}
    writer = AllocationWriter(cloud.client, cloud.reader, sleep=lambda seconds: cloud.set_inventories(provider, more))
    writer.claim([cloud.request(provider, VCPU=2)])
    assert cloud.used(provider)["VCPU"] == 2


def test_a_claim_is_not_checked_where_that_is_switched_off(cloud):
    provider = cloud.add()
    cloud.writer.checks_claims = False
    cloud.writer.claim([cloud.request(provider)])
    assert not cloud.proxy.of("GET", "/")


def test_the_check_costs_one_call_where_no_other_writer_was_there(cloud):
    provider = cloud.add()
    cloud.reader.read_some([provider])
    cloud.calls.clear()
    cloud.writer.claim([cloud.request(provider)])
    assert cloud.calls == {("POST", "/allocations"): 1, ("GET", "/resource_providers/{uuid}/usages"): 1}


def test_a_claim_that_cannot_be_checked_is_taken_back(cloud):
    provider = cloud.add()
    cloud.proxy.add("GET", "/usages", times=9, status=503, executes=False)
    with pytest.raises(PlacementUnavailable):
        cloud.writer.claim([cloud.request(provider)])
    assert cloud.used(provider)["VCPU"] == 0


def test_a_claim_that_cannot_be_taken_back_is_logged_with_its_consumer(cloud, caplog):
    provider = cloud.add()
    request = cloud.request(provider)
    cloud.proxy.add("GET", "/usages", times=9, status=503, executes=False)
    cloud.proxy.add("DELETE", "/allocations", times=9, status=503, executes=False)
    with pytest.raises(PlacementUnavailable):
        cloud.writer.claim([request])
    assert request.consumer_uuid in caplog.text


def test_one_process_never_has_two_claims_for_a_provider_in_flight(cloud):
    provider = cloud.add()
    in_parallel([lambda: cloud.writer.claim([cloud.request(provider)]) for _ in range(6)])
    assert cloud.used(provider)["VCPU"] == 6
    assert cloud.proxy.most_in_flight == 1


def test_claims_for_the_same_providers_in_different_order_do_not_deadlock(cloud):
    one, other = cloud.add(), cloud.add()
    pairs = [(one, other), (other, one)] * 2
    in_parallel([lambda pair=pair: cloud.writer.claim([cloud.request(each) for each in pair]) for pair in pairs])
    assert (cloud.used(one)["VCPU"], cloud.used(other)["VCPU"]) == (4, 4)


def test_schedulers_that_race_for_the_last_room_never_overbook_it(cloud):
    """Placement itself grants the same room several times in such a race, with its default options."""
    clients = [cloud.open_client(cloud.real_port) for _ in range(4)]
    writers = [AllocationWriter(each, ProviderReader(each)) for each in clients]
    outcomes = []

    def race(writer, provider):
        try:
            outcomes.append(writer.claim([cloud.request(provider, VCPU=16)]))
        except PlacementConflict as error:
            outcomes.append(error.kind)

    for _ in range(3):
        provider = cloud.add()
        in_parallel([lambda writer=writer, at=provider: race(writer, at) for writer in writers])
        granted = [each for each in outcomes if not isinstance(each, str)]
        assert cloud.used(provider)["VCPU"] == 16 * len(granted) <= 16
        outcomes.clear()


def in_parallel(functions):
    """Call all at the same moment; the first error, if there is one."""
    barrier, errors = threading.Barrier(len(functions)), []

    def call(function):
        barrier.wait()
        try:
            function()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=call, args=(each,)) for each in functions]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    if errors:
        raise errors[0]


def test_a_claim_that_was_not_sent_is_in_no_doubt(cloud, caplog):
    """Nothing listens there, so nothing was claimed: that is said at once."""
    writer = AllocationWriter(cloud.open_client(free_port()), cloud.reader, sleep=cloud.pauses.append)
    with pytest.raises(PlacementUnavailable) as caught:
        writer.claim([cloud.request(cloud.add())])
    assert not caught.value.may_be_executed
    assert "may have claimed" not in caplog.text
    assert not cloud.pauses
