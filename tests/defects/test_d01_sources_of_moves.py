# SPDX-License-Identifier: Apache-2.0
"""D1: the source of a move is held until something says that the instance has left it."""

import json

import pytest
from tests.defects.clouds import INSTANCE, MIGRATION, RAM, THREE, Interrupted, all_held
from tests.flow.cloud import UUID, hosts_of, request

from roost.errors import NoValidHost
from roost.model import Flavor, RequestSpec
from roost.model.request import Destination


@pytest.fixture
def cloud(make_cloud):
    return make_cloud(THREE, RAM)


def test_d1_source_is_kept_when_the_first_target_will_not_do(cloud):
    loop = cloud.manager().claims
    loop.select(request(), [INSTANCE])
    loop.select(request(ignore_hosts=("a",)), [INSTANCE])
    loop.select(request(ignore_hosts=("a", "b")), [INSTANCE])  # nova's live migration task, second round
    held = all_held(cloud, INSTANCE, MIGRATION)
    assert "a" in held, f"it runs on a; held are {held}"
    assert "b" not in held, f"b said no, and is held: {held}"


def test_d1_source_is_kept_after_a_failed_resize(cloud):
    loop = cloud.manager().claims
    loop.select(request(), [INSTANCE])
    loop.select(request(memory_mb=4096, ignore_hosts=("a",)), [INSTANCE])  # fails on b; the instance stays on a
    loop.select(request(ignore_hosts=("a",)), [INSTANCE])  # another day
    assert "a" in all_held(cloud, INSTANCE, MIGRATION), cloud.held(INSTANCE, MIGRATION)


def test_d1_source_is_kept_when_two_schedulers_get_the_same_move(cloud):
    one, two = cloud.manager().claims, cloud.manager().claims
    one.select(request(), [INSTANCE])
    two.refresh()
    first = []
    two.granter = Interrupted(
        cloud.ledger, lambda: first.append(one.select(request(ignore_hosts=("a",)), [INSTANCE]))
    )
    second = two.select(request(ignore_hosts=("a",)), [INSTANCE])
    assert "a" in all_held(cloud, INSTANCE, MIGRATION), cloud.held(INSTANCE, MIGRATION)
    assert hosts_of(first[0]) == hosts_of(second) == ["b"]


def test_d1_a_second_scheduler_that_chose_another_target_gets_the_answer_of_the_first(cloud):
    one, two = cloud.manager().claims, cloud.manager().claims
    one.select(request(), [INSTANCE])
    two.refresh()
    first = []

    def move_elsewhere():
        first.append(one.select(request(requested_destination=Destination(host="c")), [INSTANCE]))

    two.granter = Interrupted(cloud.ledger, move_elsewhere)
    assert hosts_of(two.select(request(ignore_hosts=("a",)), [INSTANCE])) == ["c"]
    assert cloud.held(INSTANCE, MIGRATION) == {INSTANCE: ["c"], MIGRATION: ["a"]}


def test_d1_where_the_target_is_left_the_first_move_is_finished_with_the_second(cloud):
    loop = cloud.manager().claims
    loop.select(request(), [INSTANCE])
    loop.select(request(ignore_hosts=("a",)), [INSTANCE])
    loop.select(request(ignore_hosts=("b",), force_hosts=("c",)), [INSTANCE])
    assert cloud.held(INSTANCE, MIGRATION) == {INSTANCE: ["c"], MIGRATION: ["b"]}


def test_d1_where_neither_is_left_both_stay_held(cloud):
    loop = cloud.manager().claims
    loop.select(request(), [INSTANCE])
    loop.select(request(ignore_hosts=("a",)), [INSTANCE])
    loop.select(request(force_hosts=("c",)), [INSTANCE])
    assert cloud.held(INSTANCE, MIGRATION) == {INSTANCE: ["c"], MIGRATION: ["a", "b"]}
    cloud.ledger.undo_move(MIGRATION, INSTANCE)
    assert cloud.held(INSTANCE, MIGRATION) == {INSTANCE: ["a", "b"]}


def test_d1_a_refused_retarget_leaves_everything_as_it_was(cloud):
    loop = cloud.manager().claims
    loop.select(request(), [INSTANCE])
    loop.select(request(ignore_hosts=("a",)), [INSTANCE])
    with pytest.raises(NoValidHost):
        loop.select(request(ignore_hosts=("a", "b", "c")), [INSTANCE])
    assert cloud.held(INSTANCE, MIGRATION) == {INSTANCE: ["b"], MIGRATION: ["a"]}


def test_d1_hosts_to_ignore_are_found_in_any_case(cloud):
    loop = cloud.manager().claims
    loop.select(request(), [INSTANCE])
    loop.select(request(ignore_hosts=("A",)), [INSTANCE])
    loop.select(request(ignore_hosts=("A", "B")), [INSTANCE])
    assert cloud.held(INSTANCE, MIGRATION) == {INSTANCE: ["c"], MIGRATION: ["a"]}


def test_d1_devices_are_held_and_released_with_the_rest(make_cloud):
    pools = [{"vendor_id": "10de", "product_id": "1eb8", "count": 1, "numa_node": None, "dev_type": "type-PCI"}]
    alias = json.dumps({"name": "gpu", "vendor_id": "10de", "product_id": "1eb8", "device_type": "type-PCI"})
    cloud = make_cloud({name: {"pci_pools": pools} for name in "abcd"}, {"pci": {"alias": [alias]}})
    loop, flavor = cloud.manager().claims, Flavor(1, 1024, root_gb=1, extra_specs={"pci_passthrough:alias": "gpu:1"})

    def place(number, *ignored):
        cloud.clock.seconds += 1
        return hosts_of(loop.select(RequestSpec(flavor=flavor, ignore_hosts=ignored), [UUID % number]))

    assert [place(1), place(1, "a"), place(1, "a", "b")] == [["a"], ["b"], ["c"]]
    assert [place(2), place(3)] == [["b"], ["d"]], "a and c are held, b was released"
    with pytest.raises(NoValidHost):
        place(4)
    cloud.ledger.undo_move(MIGRATION, INSTANCE)
    assert place(4) == ["c"]
    with pytest.raises(NoValidHost):
        place(5)
    cloud.ledger.release([INSTANCE])
    assert place(5) == ["a"]
