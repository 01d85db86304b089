# SPDX-License-Identifier: Apache-2.0
"""An instance that holds a host asks again: the same request is answered as before, another one is a move."""

import pytest
from tests.flow.cloud import UUID, hosts_of, request

from roost.errors import NoValidHost
from roost.model.request import Destination, Retry
from roost.model.resources import move_of

TWO = {"a": {}, "b": {"total_usable_ram_mb": 16384}}


@pytest.fixture
def cloud(make_cloud):
    return make_cloud(TWO, {"filter_scheduler": {"weight_classes": ["RAMWeigher"]}})


def test_the_same_request_gets_the_same_hosts_from_another_scheduler(cloud):
    first, second = cloud.manager().claims, cloud.manager().claims
    uuids = [UUID % 1, UUID % 2]
    before = hosts_of(first.select(request(), uuids))
    cloud.bring(
        {"hosts": [{"host": "c", "vcpus_total": 99, "total_usable_ram_mb": 99999, "total_usable_disk_gb": 999}]}
    )
    assert hosts_of(second.select(request(), uuids)) == before == ["a", "a"]
    assert all(len(nodes) == 1 for nodes in cloud.holdings(uuids).values())


def test_a_repeated_request_is_not_counted_twice_in_the_picture(cloud):
    driver = cloud.manager().claims
    for _ in range(3):
        driver.select(request(memory_mb=12000), [UUID % 1])
    assert hosts_of(driver.select(request(memory_mb=12000), [UUID % 2])) == ["a"]


def test_who_asks_for_anywhere_but_there_moves_and_holds_both(cloud):
    driver = cloud.manager().claims
    driver.select(request(), [UUID % 1])
    moved = driver.select(request(ignore_hosts=("a",)), [UUID % 1])
    keeper = move_of(UUID % 1)
    assert hosts_of(moved) == ["b"]
    assert cloud.held(UUID % 1, keeper) == {UUID % 1: ["b"], keeper: ["a"]}


def test_the_same_move_once_more_is_the_same_answer(cloud):
    driver = cloud.manager().claims
    driver.select(request(), [UUID % 1])
    for _ in range(2):
        assert hosts_of(driver.select(request(ignore_hosts=("a",)), [UUID % 1])) == ["b"]


@pytest.mark.parametrize(
    "elsewhere",
    [{"force_hosts": ("b",)}, {"requested_destination": Destination(host="b")}, {"force_nodes": ("b",)}],
)
def test_who_names_another_host_moves_there(cloud, elsewhere):
    driver = cloud.manager().claims
    driver.select(request(), [UUID % 1])
    assert hosts_of(driver.select(request(**elsewhere), [UUID % 1])) == ["b"]


def test_another_size_is_a_resize(cloud):
    driver = cloud.manager().claims
    driver.select(request(), [UUID % 1])
    driver.select(request(memory_mb=4096), [UUID % 1])
    assert {"MEMORY_MB": 4096}.items() <= next(iter(cloud.holdings([UUID % 1])[UUID % 1].values())).items()


def test_a_move_that_finds_no_host_leaves_everything_as_it_was(cloud):
    driver = cloud.manager().claims
    driver.select(request(), [UUID % 1])
    with pytest.raises(NoValidHost):
        driver.select(request(ignore_hosts=("a", "b")), [UUID % 1])
    assert cloud.held(UUID % 1) == {UUID % 1: ["a"]}


def test_a_host_where_the_build_failed_is_given_back(cloud):
    """Before Queens a host that failed came back to the scheduler in retry.hosts."""
    driver = cloud.manager().claims
    driver.select(request(), [UUID % 1])
    again = request(retry=Retry(2, (("a", "a"),)), ignore_hosts=("a",))
    assert hosts_of(driver.select(again, [UUID % 1])) == ["b"]
    assert cloud.held(UUID % 1, move_of(UUID % 1)) == {UUID % 1: ["b"]}


def test_who_moves_again_has_left_where_it_moved_from_before(cloud):
    driver = cloud.manager().claims
    driver.select(request(), [UUID % 1])
    for here, there in (("a", "b"), ("b", "a"), ("a", "b"), ("b", "a")):
        assert hosts_of(driver.select(request(ignore_hosts=(here,)), [UUID % 1])) == [there]
        assert cloud.held(UUID % 1, move_of(UUID % 1)) == {UUID % 1: [there], move_of(UUID % 1): [here]}


def test_several_move_or_none(make_cloud, monkeypatch):
    """Half a move would look like a whole one to the next round."""
    small = {"total_usable_ram_mb": 5000}  # room for two
    cloud = make_cloud({"a": {}, "b": small}, {"filter_scheduler": {"weight_classes": ["RAMWeigher"]}})
    both, elsewhere = [UUID % 1, UUID % 2], request(ignore_hosts=("a",))
    slow, fast = cloud.manager().claims, cloud.manager().claims
    assert hosts_of(slow.select(request(), both)) == ["a", "a"]
    usual, others = cloud.ledger.claim_and_move, [UUID % 3]

    def claim_and_move(claims, moves):
        if others:
            fast.select(elsewhere, [others.pop()])
        usual(claims, moves)

    monkeypatch.setattr(cloud.ledger, "claim_and_move", claim_and_move)
    with pytest.raises(NoValidHost):
        slow.select(elsewhere, both)
    moves = [move_of(each) for each in both]
    assert cloud.held(*both, *moves) == {UUID % 1: ["a"], UUID % 2: ["a"]}
