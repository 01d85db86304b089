# SPDX-License-Identifier: Apache-2.0
"""Which hosts of a nova cloud are in the replica, and with what; over the real host manager."""

import logging
from datetime import timedelta

import pytest
from tests.nova_cloud.own_log import own_messages
from tests.nova_cloud.small_cloud import HOSTS, SmallCloud, node_uuid

from roost import Flavor, RequestSpec
from roost.errors import (
    ClaimRejected,
    DatabaseError,
    DatabaseRefused,
    DatabaseUnreachable,
    NoReadableCell,
    PlacementConflict,
)
from roost.hosts import Instance
from roost.hosts.record import Inventory
from roost.ledger.claim import claim_for
from roost.model import Aggregate, Service


@pytest.fixture
def cloud():
    made = SmallCloud()
    made.replica.load()
    return made


def hosts(cloud):
    return [host for host, _ in cloud.replica.table.names]


def up(cloud):
    table = cloud.replica.table
    return [host for row, (host, _) in enumerate(table.names) if table.numbers["is_up"][row]]


def test_every_mapped_host_with_a_service_and_a_provider_is_there(cloud):
    assert hosts(cloud) == list(HOSTS)
    table = cloud.replica.table
    assert table.numbers["allocated:VCPU"].tolist() == [1, 1, 1]
    assert table.numbers["free_ram_mb"].tolist() == [4096] * 3
    assert table.encoded["traits"].at(0) == frozenset({"COMPUTE_NODE"})


def test_without_host_mapping_service_or_provider_a_host_is_left_out(cloud):
    cloud.api.unmap("a")
    cloud.cell.remove_service("b")
    cloud.providers.remove(node_uuid("c"))
    cloud.replica.refresh()
    assert hosts(cloud) == []
    cloud.api.map("a")
    cloud.replica.refresh()
    assert hosts(cloud) == ["a"]


def test_a_class_that_placement_does_not_have_has_no_room(cloud):
    cloud.providers.put("a", inventories={"PCPU": Inventory(8)}, used={})
    cloud.replica.refresh()
    table = cloud.replica.table
    row = table.find_row(("a", "a"))
    assert (table.numbers["limit:VCPU"][row], table.numbers["limit:PCPU"][row]) == (0, 8)


def test_a_cell_that_is_down_is_left_out_and_comes_back(cloud):
    other = cloud.add_cell(3, {"d": 1})
    cloud.replica.refresh()
    assert hosts(cloud) == ["a", "b", "c", "d"]
    other.error = DatabaseUnreachable("gone")
    cloud.replica.refresh()
    assert hosts(cloud) == ["a", "b", "c"]
    assert cloud.source.problems() == ["cell cell3 cannot be read: gone"]
    other.error = None
    cloud.replica.refresh()
    assert hosts(cloud) == ["a", "b", "c", "d"]
    assert cloud.source.problems() == []


def test_flags_of_services_are_read_without_the_rest(cloud):
    table = cloud.replica.table
    cloud.cell.put_service("b", Service(disabled=True, disabled_reason="being repaired"), cloud.now)
    cloud.cell.put_node("a", free_ram_mb=1)
    cloud.replica.refresh_flags()
    assert [table.encoded["service"].at(row).disabled for row in range(3)] == [False, True, False]
    assert up(cloud) == ["a", "b", "c"]
    assert table.numbers["free_ram_mb"].tolist() == [4096] * 3, "nodes are read by a refresh"
    cloud.cell.put_service("b", Service(), cloud.now)
    cloud.cell.remove_service("c")
    cloud.replica.refresh_flags()
    assert hosts(cloud) == ["a", "b"]
    assert not cloud.replica.table.encoded["service"].at(1).disabled
    cloud.replica.refresh()
    assert cloud.replica.table.numbers["free_ram_mb"].tolist() == [1, 4096]


def test_flags_that_cannot_be_read_leave_the_cell_out_and_the_next_refresh_has_it_back(cloud):
    cloud.add_cell(3, {"d": 1})
    cloud.replica.refresh()
    cloud.cell.error = DatabaseUnreachable("gone")
    cloud.replica.refresh_flags()
    assert hosts(cloud) == ["d"]
    cloud.cell.error = None
    cloud.replica.refresh()
    assert sorted(hosts(cloud)) == ["a", "b", "c", "d"]


def value(cloud, metric):
    (line,) = [each for each in cloud.metrics.render().decode().splitlines() if each.startswith(f"{metric} ")]
    return float(line.split()[1])


def test_a_cell_that_is_down_is_two_lines_in_the_log_and_counted(cloud, caplog):
    caplog.set_level(logging.INFO, "roost.nova")
    other = cloud.add_cell(3, {"d": 1})
    other.error = DatabaseUnreachable("gone")
    for _ in range(3):
        cloud.replica.refresh()
    assert own_messages(caplog) == ["cell cell3 is left out: it cannot be read: gone"]
    assert value(cloud, "roost_unreadable_cells") == 1
    other.error = None
    for _ in range(3):
        cloud.replica.refresh()
    assert own_messages(caplog)[1:] == ["cell cell3 can be read again"]
    assert value(cloud, "roost_unreadable_cells") == 0


def test_without_any_cell_the_error_says_it_and_the_log_of_each_cell_does_not(cloud, caplog):
    cloud.cell.error = DatabaseUnreachable("gone")
    for _ in range(2):
        with pytest.raises(DatabaseError, match="cell cell2 cannot be read: gone"):
            cloud.replica.refresh()
    assert value(cloud, "roost_unreadable_cells") == 1
    assert cloud.replica.trouble_since == cloud.now
    cloud.cell.error = None
    cloud.replica.refresh()
    assert (cloud.replica.trouble_since, own_messages(caplog)) == (None, [])


def test_only_where_no_restart_opens_any_cell_the_error_lasts(cloud):
    """D35: a scheduler with several workers ends then."""
    other = cloud.add_cell(3, {"d": 1})
    for error, is_lasting in ((DatabaseUnreachable("gone"), False), (DatabaseRefused("no right to SELECT"), True)):
        cloud.cell.error, other.error = DatabaseRefused("no right to SELECT"), error
        with pytest.raises(NoReadableCell) as caught:
            cloud.replica.load()
        assert caught.value.is_lasting is is_lasting


def test_messages_of_computes_during_an_outage_are_no_lines_in_the_log(cloud, caplog):
    cloud.cell.error = DatabaseUnreachable("gone")
    for host in HOSTS:
        cloud.replica.sync_instance_info(host, ["some"])
    assert [each for each in caplog.records if each.levelno > logging.DEBUG and each.name.startswith("roost.")] == []


def test_a_cell_that_does_not_answer_in_time_does_not_delay_each_request(cloud):
    other = cloud.add_cell(3, {"d": 1})
    cloud.replica.refresh()
    other.error, before = DatabaseUnreachable("timed out"), other.attempts

    def take_five_seconds():
        cloud.now += timedelta(seconds=5)

    other.on_failure = take_five_seconds
    for _ in range(9):
        cloud.replica.refresh()
        cloud.now += timedelta(seconds=1)
    assert other.attempts == before + 1
    cloud.now += timedelta(seconds=1)
    other.error = None
    cloud.replica.refresh()
    assert hosts(cloud) == ["a", "b", "c", "d"]


def test_the_table_is_as_old_as_the_last_read_of_all_providers(cloud):
    cloud.now += timedelta(seconds=20)
    cloud.replica.refresh()
    assert value(cloud, "roost_table_age_seconds") == 0
    cloud.providers.read_at = cloud.monotonic()
    cloud.now += timedelta(seconds=70)
    cloud.replica.refresh()
    assert value(cloud, "roost_table_age_seconds") == 70


def test_without_any_cell_nothing_can_be_said(cloud):
    cloud.cell.error = DatabaseUnreachable("gone")
    with pytest.raises(DatabaseError, match="cell cell2 cannot be read: gone"):
        cloud.replica.refresh()
    assert cloud.replica.trouble
    cloud.cell.error = None
    cloud.replica.refresh()
    assert hosts(cloud) == ["a", "b", "c"]


def test_heartbeats_decide_which_hosts_are_up(cloud):
    cloud.now += timedelta(seconds=61)
    cloud.cell.beat("b", cloud.now)
    cloud.replica.refresh()
    assert up(cloud) == ["b"]
    cloud.replica.refresh()
    assert cloud.cell.heartbeat_reads == 1, "they were read a moment ago"
    cloud.cell.put_service("b", Service(forced_down=True), cloud.now)
    cloud.replica.refresh()
    assert up(cloud) == []


def test_aggregates_that_change_and_vanish(cloud):
    cloud.api.set_aggregates(Aggregate("fast", {"ssd": "true"}, ("a",), 1))
    cloud.replica.refresh()
    assert [each.name for each in cloud.replica.table.encoded["aggregates"].at(0)] == ["fast"]
    cloud.api.set_aggregates()
    cloud.replica.refresh()
    assert cloud.replica.table.encoded["aggregates"].at(0) == ()
    assert cloud.replica.table.known_aggregates == ()


def test_aggregates_are_not_lost_when_a_later_read_fails(cloud):
    cloud.api.set_aggregates(Aggregate("fast", {"ssd": "true"}, ("a",), 1))
    cloud.cell.error = DatabaseUnreachable("gone")
    with pytest.raises(DatabaseError):
        cloud.replica.refresh()
    cloud.cell.error = None
    cloud.replica.refresh()
    assert [each.name for each in cloud.replica.table.encoded["aggregates"].at(0)] == ["fast"]


def test_own_claims_count_until_the_row_was_written(cloud):
    claim = claim_for(RequestSpec(flavor=Flavor(1, 1024, root_gb=1), instance_uuid=node_uuid("x")), node_uuid("a"))
    cloud.granter.expect([claim])
    cloud.granter.claim([claim])
    cloud.replica.refresh(also=[("a", "a")])
    assert cloud.replica.table.numbers["free_ram_mb"].tolist() == [3072, 4096, 4096]
    assert cloud.replica.table.rows_of_instance(node_uuid("x")) == (0,)
    cloud.now += timedelta(seconds=5)
    cloud.cell.put_node("a", free_ram_mb=3000, updated_at=cloud.now)
    cloud.replica.refresh()
    assert cloud.replica.table.numbers["free_ram_mb"].tolist() == [3000, 4096, 4096]


def test_a_refresh_makes_no_call_to_placement_and_undoes_what_was_consumed(cloud):
    table = cloud.replica.table
    table.consume(1, RequestSpec(flavor=Flavor(1, 1024), instance_uuid=node_uuid("x")))
    cloud.replica.refresh(also=[("b", "b")])
    assert table.numbers["free_ram_mb"].tolist() == [4096, 4096, 4096]
    assert (cloud.providers.full_reads, cloud.providers.read_again) == (0, [])


def test_a_refresh_during_a_claim_keeps_it_in_the_row(cloud):
    """Otherwise a second member of a group would go to the same host."""
    claim = claim_for(RequestSpec(flavor=Flavor(1, 1024), instance_uuid=node_uuid("x")), node_uuid("a"))
    cloud.granter.expect([claim])
    cloud.cell.put_node("a", updated_at=cloud.now - timedelta(seconds=5))
    cloud.replica.refresh()
    assert cloud.replica.table.rows_of_instance(node_uuid("x")) == (0,)
    cloud.writer.error = PlacementConflict("capacity", "no room", [node_uuid("a")])
    with pytest.raises(ClaimRejected):
        cloud.granter.claim([claim])
    assert cloud.writer.read_again == [node_uuid("a")]
    cloud.replica.refresh(also=[("a", "a")])
    assert cloud.replica.table.rows_of_instance(node_uuid("x")) == ()


def test_until_all_providers_were_read_hosts_are_there_without_room():
    cloud = SmallCloud()
    cloud.providers.is_complete = False
    cloud.providers.remove(node_uuid("b"))
    cloud.replica.load()
    assert hosts(cloud) == ["a", "b", "c"]
    assert cloud.replica.table.numbers["limit:VCPU"].tolist() == [8, 0, 8]
    cloud.providers.is_complete = True
    cloud.replica.refresh()
    assert hosts(cloud) == ["a", "c"]


def test_a_refused_claim_names_the_hosts_of_the_request(cloud):
    cloud.writer.error = PlacementConflict("capacity", "no room", [node_uuid("a")])
    claim = claim_for(RequestSpec(flavor=Flavor(1, 1024), instance_uuid=node_uuid("x")), node_uuid("a"))
    with pytest.raises(ClaimRejected) as caught:
        cloud.granter.claim([claim])
    assert [(each.host, each.node) for each in caught.value.refusals] == [("a", "a")]
    assert cloud.granter.release_on([node_uuid("x")], [node_uuid("a")]) == 0


def test_messages_about_instances_change_nothing_and_read_nothing(cloud):
    """After a live migration the old host sends a list with the instance that it has just lost."""
    instance = Instance(node_uuid("x"))
    cloud.replica.update_instance_info("a", [instance])
    cloud.replica.sync_instance_info("b", [instance.uuid])
    cloud.replica.delete_instance_info("c", instance.uuid)
    assert cloud.replica.table.rows_of_instance(instance.uuid) == ()
    assert not cloud.providers.read_again


def run(cloud, seconds, *beating):
    """So many seconds pass, with a refresh each five, and heartbeats of these hosts."""
    for _ in range(seconds // 5):
        cloud.now += timedelta(seconds=5)
        for host in beating:
            cloud.cell.beat(host, cloud.now)
        cloud.replica.refresh()


def test_hosts_of_a_cell_that_was_away_are_given_time_for_a_heartbeat(cloud):
    """D38, as far as a nova cloud lets Roost know: its databases cannot be read."""
    run(cloud, 20, *HOSTS)
    cloud.cell.error = DatabaseUnreachable("gone")
    for _ in range(16):
        cloud.now += timedelta(seconds=5)
        with pytest.raises(DatabaseError, match="gone"):
            cloud.replica.refresh()
    cloud.cell.error = None
    cloud.now += timedelta(seconds=5)
    cloud.replica.refresh()
    assert up(cloud) == list(HOSTS)
    run(cloud, 60, "b")
    assert up(cloud) == list(HOSTS)
    run(cloud, 5, "b")
    assert up(cloud) == ["b"]


def test_hosts_of_a_cell_that_took_no_heartbeat_of_any_host_are_given_time_for_one(cloud):
    """D38: the database of the cell can be read and not written, such as one whose disk is full."""
    run(cloud, 20, *HOSTS)
    run(cloud, 80)
    assert up(cloud) == []
    run(cloud, 5, "b")
    assert up(cloud) == list(HOSTS)
    run(cloud, 60, "b")
    assert up(cloud) == list(HOSTS)
    run(cloud, 5, "b")
    assert up(cloud) == ["b"]


def test_a_host_of_a_cell_that_was_down_before_the_outage_stays_down(cloud):
    run(cloud, 70, "b", "c")
    assert up(cloud) == ["b", "c"]
    run(cloud, 80)
    run(cloud, 5, "b")
    assert up(cloud) == ["b", "c"]
