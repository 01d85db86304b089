# SPDX-License-Identifier: Apache-2.0
"""The table follows the store: spec/hosts.md 3, docs/explanation/the-replica.md."""

import datetime
import logging

import pytest
from sqlalchemy import event, text
from tests.store.comparing import assert_same_table
from tests.store.servers import PostgreSQL
from tests.store.writers import NOW, SMALL, Writer, writing

from roost.errors import DatabaseError
from roost.hosts import Instance
from roost.model import Aggregate, Service
from roost.scheduler import own_replica
from roost.scheduler.options import SchedulerOptions
from roost.scheduler.own_replica import make_host_manager
from roost.scheduler.replica import RefreshResult
from roost.store.change_log import prune, record_changes
from roost.store.schema import metadata
from roost.store.schema_upgrade import upgrade

SECOND = datetime.timedelta(seconds=1)


class Clocks:
    """A wall clock and one that only goes forward; both stand until they are told to go on."""

    def __init__(self):
        self.now, self.ticks = NOW, 0.0

    def wall(self):
        return self.now

    def monotonic(self):
        return self.ticks

    def go_on(self, seconds):
        self.now += seconds * SECOND
        self.ticks += seconds


@pytest.fixture
def clocks():
    return Clocks()


@pytest.fixture
def store(current):
    """A database without a row; that is sooner had than a new one."""
    with current.begin() as connection:
        for table in reversed(metadata.sorted_tables):
            connection.execute(table.delete())
    return current


@pytest.fixture
def make(store, clocks):
    """Makes host managers that have read everything."""

    def make_one(**options):
        manager = make_host_manager(store, SchedulerOptions(**options), clocks.wall, clocks.monotonic)
        manager.load()
        return manager

    return make_one


def check(manager):
    """What is in the table is what a full read gives."""
    fresh = make_host_manager(manager._source._engine, manager._options, manager._now, manager._monotonic)
    fresh.load()
    assert_same_table(manager.table, fresh.table)
    assert manager._known.ids == fresh._known.ids
    assert manager._known.pairs == fresh._known.pairs


def names(manager):
    return [node for _, node in manager.table.names]


def row_of(manager, host, node=None):
    return manager.table.find_row((host, node or host))


def view(manager, host, node=None):
    (found,) = manager.table.one(row_of(manager, host, node))
    return found


# --- reading -----------------------------------------------------------------------------------------


def test_load_reads_everything(store, make):
    with writing(store) as writer:
        first = writer.host("h1")
        writer.instance(first, "i1")
        writer.host("h2", "n2", cell="cell2")
        writer.aggregate("fast", ["h1"], ssd="true")
    manager = make(packing_host_numa_cells_allocation_strategy=True)
    assert manager.table.names == [("h1", "h1"), ("h2", "n2")]
    assert manager.table.packs_numa_cells
    assert [each.name for each in manager.table.known_aggregates] == ["fast"]
    assert manager.table.rows_of_instance("i1") == (0,)
    assert manager.node_id(0) == first
    assert view(manager, "h2", "n2").cell_uuid == "cell2"


def test_the_first_refresh_loads(store, clocks):
    with writing(store) as writer:
        writer.host("h1")
    manager = make_host_manager(store, SchedulerOptions(), clocks.wall, clocks.monotonic)
    assert manager.refresh() == RefreshResult(0, 1, 0, is_full=True)


def test_an_empty_store_is_an_empty_table_until_a_host_comes(store, make):
    manager = make()
    assert len(manager.table) == 0
    assert manager.refresh() == RefreshResult(0, 0, 0, is_full=False)
    with writing(store) as writer:
        writer.host("h1")
    assert manager.refresh() == RefreshResult(0, 1, 0, is_full=False)
    check(manager)


def test_where_nothing_changed_nothing_is_noted(store, make):
    with writing(store) as writer:
        writer.host("h1")
    manager = make()
    table, version = manager.table, manager.table.changes.version
    assert manager.refresh() == RefreshResult(0, 0, 0, is_full=False)
    assert manager.table is table
    assert table.changes.version == version


def test_a_claim_changes_what_is_used_and_nothing_else(store, make):
    with writing(store) as writer:
        node_id = writer.host("h1")
        writer.host("h2")
    manager = make()
    table, version = manager.table, manager.table.changes.version
    with writing(store) as writer:
        writer.instance(node_id, "i1", details={"flavor_id": 1})
    assert manager.refresh() == RefreshResult(1, 0, 0, is_full=False)
    assert manager.table is table
    usage = {"free_ram_mb", "free_disk_mb", "disk_mb_used", "vcpus_used", "num_instances", "instances"}
    assert table.changes.rows_since(version) == {0: usage | {f"allocated:{name}" for name in SMALL}}
    assert table.changes.version == version + 1
    check(manager)


def test_what_was_consumed_here_and_then_claimed_is_no_news(store, make):
    with writing(store) as writer:
        node_id = writer.host("h1")
    manager = make()
    table = manager.table
    for name, amount in {"free_ram_mb": -1024, "free_disk_mb": -10240, "vcpus_used": 1, "num_instances": 1}.items():
        table.numbers[name][0] += amount  # as consume does
    for name, amount in SMALL.items():
        table.numbers[f"allocated:{name}"][0] += amount
    table.instance_index.replace(0, [Instance("i1", "p1", 1, resources=SMALL)], ())
    with writing(store) as writer:
        writer.instance(node_id, "i1", details={"flavor_id": 1})
    manager.refresh()
    assert table.changes.rows_since(0) == {0: {"disk_mb_used"}}, "which consume leaves alone, as nova does"
    assert table.changes.version == 1


def test_what_leaves_is_gone(store, make):
    with writing(store) as writer:
        node_id = writer.host("h1")
        writer.instance(node_id, "i1")
        writer.instance(node_id, "i2")
    manager = make()
    with writing(store) as writer:
        writer.let_go(node_id, "i1")
    assert manager.refresh().changed == 1
    assert set(manager.table.instances[0]) == {"i2"}
    check(manager)


def test_a_report_changes_whatever_it_says(store, make):
    with writing(store) as writer:
        node_id = writer.host("h1")
        writer.host("h2")
    manager = make()
    with writing(store) as writer:
        writer.report(node_id, vcpus=32, stats={"a": 1}, hypervisor_type="KVM", disk_available_least=-3)
        writer.inventories(node_id, {"CUSTOM_FPGA": 4})
    assert manager.refresh() == RefreshResult(1, 0, 0, is_full=False)
    assert view(manager, "h1").vcpus_total == 32
    assert view(manager, "h1").free_disk_mb == -3072
    check(manager)


def test_a_report_and_a_claim_at_once(store, make):
    with writing(store) as writer:
        node_id = writer.host("h1")
    manager = make()
    with writing(store) as writer:
        writer.report(node_id, vcpus=32)
        writer.instance(node_id, "i1")
    assert manager.refresh().changed == 1
    check(manager)


def test_figures_that_follow_from_the_report_are_read_whole(store, make):
    with writing(store) as writer:
        node_id = writer.host("h1", running_vms=None, stats={"num_instances": 3})
    manager = make()
    with writing(store) as writer:
        writer.instance(node_id, "i1")
    manager.refresh()
    assert view(manager, "h1").num_instances == 3
    check(manager)


def test_a_server_that_moves_is_seen_on_its_new_host_and_not_on_the_old(store, make):
    with writing(store) as writer:
        writer.host("h1")
        writer.host("h2")
        writer.server("s1", "h1")
    manager = make()
    with writing(store) as writer:
        writer.move_server("s1", "h2")
    manager.refresh()
    assert manager.table.rows_of_instance("s1") == (1,)
    check(manager)
    with writing(store) as writer:
        writer.drop_server("s1")
    manager.refresh()
    assert manager.table.rows_of_instance("s1") == ()
    check(manager)


# SQLite lets one transaction write at a time: nothing becomes visible late there.
@pytest.mark.parametrize("kind", ["postgresql", "mariadb"], indirect=True, scope="module")
def test_what_becomes_visible_late_is_not_lost(store, make):
    with writing(store) as writer:
        first, second = writer.host("h1"), writer.host("h2")
    manager = make()
    with store.connect() as slow:
        slow.begin()
        writer = Writer(slow)
        writer.instance(first, "slow")
        record_changes(slow, writer.changes)
        with writing(store) as writer:
            writer.instance(second, "quick")
        assert manager.refresh().changed == 1
        slow.commit()
    assert manager.refresh().changed == 1
    check(manager)


# --- hosts come and go -------------------------------------------------------------------------------


def test_hosts_that_appear_vanish_and_return(store, make, caplog):
    caplog.set_level(logging.INFO)
    with writing(store) as writer:
        middle = writer.host("h5")
        writer.instance(middle, "i1")
        writer.aggregate("fast", ["h5", "h9"])
    manager = make()
    with writing(store) as writer:
        writer.host("h9")
        first = writer.host("h1")
    assert manager.refresh() == RefreshResult(0, 2, 0, is_full=False)
    assert names(manager) == ["h1", "h5", "h9"]
    check(manager)
    with writing(store) as writer:
        writer.drop_node(first)
        writer.report(middle, vcpus=2)
    assert manager.refresh() == RefreshResult(1, 0, 1, is_full=False)
    assert "removing dead compute node h1:h1" in caplog.text
    check(manager)
    with writing(store) as writer:
        writer.node("h1")
    assert manager.refresh() == RefreshResult(0, 1, 0, is_full=False)
    assert [each.name for each in view(manager, "h9").aggregates] == ["fast"]
    check(manager)


def test_a_node_that_was_made_anew_under_its_name_is_the_new_one(store, make):
    with writing(store) as writer:
        old = writer.host("h1")
        writer.host("h2")
    manager = make()
    table = manager.table
    with writing(store) as writer:
        writer.drop_node(old)
        new = writer.node("h1", uuid="another", vcpus=3)
    assert manager.refresh() == RefreshResult(1, 0, 0, is_full=False)
    assert manager.table is table
    assert view(manager, "h1").uuid == "another"
    assert manager.node_id(0) == new
    check(manager)
    with writing(store) as writer:
        writer.note("compute_nodes", old)  # as if the news of the old one came last
        writer.note("allocations", f"{old}/i1")
    assert manager.refresh() == RefreshResult(0, 0, 0, is_full=False)
    check(manager)


def test_a_node_that_got_another_name_is_a_host_that_went_and_one_that_came(store, make):
    with writing(store) as writer:
        node_id = writer.host("h1", "n1")
    manager = make()
    with writing(store) as writer:
        writer.report(node_id, hypervisor_hostname="n2")
    assert manager.refresh() == RefreshResult(0, 1, 1, is_full=False)
    assert names(manager) == ["n2"]
    check(manager)


def test_a_node_without_a_service_is_left_out_until_it_has_one(store, make, caplog):
    with writing(store) as writer:
        writer.host("h1")
        writer.node("h2")
    manager = make()
    assert names(manager) == ["h1"]
    assert "no compute service record for host h2" in caplog.text
    with writing(store) as writer:
        writer.service("h2")
    assert manager.refresh() == RefreshResult(0, 1, 0, is_full=False)
    check(manager)
    with writing(store) as writer:
        writer.drop_service("h1")
    assert manager.refresh() == RefreshResult(0, 0, 1, is_full=False)
    assert names(manager) == ["h2"]
    check(manager)


def test_many_names_in_a_warning_are_cut_short(store, make, caplog):
    with writing(store) as writer:
        for number in range(8):
            writer.node(f"h{number}", disk_available_least=5)
    make()
    (line,) = [each.getMessage() for each in caplog.records]
    assert line == "no compute service record for host h0, h1, h2, h3, h4 and 3 more"


def test_more_disk_than_is_booked_is_told(store, make, caplog):
    with writing(store) as writer:
        writer.host("h1", free_disk_gb=10, disk_available_least=11)
    make()
    assert "more disk than the database says is free on h1" in caplog.text


# --- everything anew ---------------------------------------------------------------------------------


def test_what_was_pruned_is_read_with_everything_else(store, make, caplog):
    caplog.set_level(logging.INFO)
    with writing(store) as writer:
        gone = writer.host("h1")
        writer.host("h2")
    manager = make()
    with writing(store) as writer:
        writer.host("h3")
        writer.drop_node(gone)
        writer.note("servers", "x")
    with writing(store) as writer:
        prune(writer.connection, keep=1)
    assert manager.refresh() == RefreshResult(0, 2, 0, is_full=True)
    assert "removing dead compute node h1:h1" in caplog.text
    check(manager)


def test_where_very_much_changed_everything_is_read(store, make, monkeypatch):
    monkeypatch.setattr(own_replica, "_MANY_NODES", 2)
    with writing(store) as writer:
        ids = [writer.host(f"h{number}") for number in range(4)]
    manager = make()
    with writing(store) as writer:
        for each in ids[:3]:
            writer.report(each, vcpus=1)
    assert not manager.refresh().is_full
    with writing(store) as writer:
        for each in ids:
            writer.report(each, vcpus=2)
    assert manager.refresh().is_full
    check(manager)


def test_nodes_that_somebody_names_are_read_in_any_case(store, make):
    with writing(store) as writer:
        node_id = writer.host("h1")
    manager = make()
    with writing(store) as writer:
        writer.report(node_id, vcpus=5)
        writer.changes.clear()  # nobody was told
    assert manager.refresh().changed == 0
    assert manager.refresh(also=[("h1", "h1"), ("nobody", "n")]).changed == 1
    check(manager)


# --- aggregates --------------------------------------------------------------------------------------


def test_aggregates_follow_the_store(store, make):
    with writing(store) as writer:
        writer.host("h1")
        writer.host("h2")
        number = writer.aggregate("a", ["h1"], availability_zone="az1")
        writer.aggregate("b")
    manager = make()
    known = manager.table.known_aggregates
    manager.refresh()
    assert manager.table.known_aggregates is known, "answers are kept for as long as it is the same object"
    with writing(store) as writer:
        writer.join(number, "h2")
        writer.describe(number, "availability_zone", "az2")
    assert manager.refresh().changed == 2
    assert view(manager, "h2").aggregate_values("availability_zone") == {"az2"}
    check(manager)
    with writing(store) as writer:
        writer.drop_aggregate(number)
    manager.refresh()
    assert view(manager, "h1").aggregates == []
    assert [each.name for each in manager.table.known_aggregates] == ["b"]
    check(manager)


def test_an_aggregate_without_hosts_that_changes_is_known_as_it_is(store, make):
    manager = make()
    with writing(store) as writer:
        number = writer.aggregate("a", availability_zone="az1")
    manager.refresh()
    with writing(store) as writer:
        writer.describe(number, "availability_zone", "az2")
    manager.refresh()
    assert dict(manager.table.known_aggregates[0].metadata) == {"availability_zone": "az2"}


def test_a_report_and_a_change_of_aggregates_at_once(store, make):
    with writing(store) as writer:
        node_id = writer.host("h1")
    manager = make()
    with writing(store) as writer:
        writer.report(node_id, vcpus=7)
        writer.host("h2")
        writer.aggregate("a", ["h1", "h2"])
    manager.refresh()
    assert [each.name for each in view(manager, "h1").aggregates] == ["a"]
    check(manager)


def test_aggregates_by_message(store, make):
    with writing(store) as writer:
        writer.host("h1")
        writer.host("h2")
        number = writer.aggregate("a", ["h1"])
    manager = make()
    manager.update_aggregates(Aggregate("renamed", {"ssd": "true"}, ("h2",), number))
    assert view(manager, "h1").aggregates == []
    assert [each.name for each in view(manager, "h2").aggregates] == ["renamed"]
    manager.update_aggregates([Aggregate("new", {}, ("h1", "h2"), 99)])
    assert [each.name for each in view(manager, "h2").aggregates] == ["renamed", "new"]
    manager.delete_aggregate(Aggregate("new", id=99))
    manager.delete_aggregate(Aggregate("nobody", id=98))
    assert [each.name for each in manager.table.known_aggregates] == ["renamed"]
    with writing(store) as writer:
        writer.note("aggregates", number)
    manager.refresh()
    check(manager)


# --- is it alive -------------------------------------------------------------------------------------


def is_up(manager, host):
    found = view(manager, host)
    assert found.service["up"] == found.is_up
    return found.is_up


def test_an_agent_that_falls_silent_is_down_and_up_again_when_it_is_heard_of(store, make, clocks, caplog):
    caplog.set_level(logging.INFO)
    with writing(store) as writer:
        writer.service("h1", is_static=False, last_seen_up=clocks.now)
        writer.node("h1")
        writer.host("static")
    manager = make()
    clocks.go_on(60)
    assert manager.refresh().changed == 0
    assert is_up(manager, "h1")
    clocks.go_on(0.000001)
    assert manager.refresh().changed == 1
    assert not is_up(manager, "h1")
    assert is_up(manager, "static")
    assert "compute service was not heard of: h1" in caplog.text
    check(manager)
    clocks.go_on(30)
    with writing(store) as writer:
        writer.change_service("h1", is_heartbeat=True, last_seen_up=clocks.now - SECOND)
    assert manager.refresh().changed == 1
    assert is_up(manager, "h1")
    check(manager)


def test_heartbeats_are_read_once_a_second_and_all_of_them_now_and_then(store, make, clocks):
    with writing(store) as writer:
        for host in ("h1", "h2"):
            writer.service(host, is_static=False, last_seen_up=clocks.now)
            writer.node(host)
    manager = make()
    clocks.go_on(5)
    manager.refresh()
    asked = []

    def note(connection, cursor, statement, *rest):
        if "last_seen_up" in statement:
            asked.append("last_seen_up >" in statement.replace("services.", "").replace("\n", " "))

    event.listen(store, "before_cursor_execute", note)
    clocks.go_on(0.5)
    manager.refresh()
    assert asked == []
    clocks.go_on(1)
    manager.refresh()
    assert asked == [True]
    clocks.go_on(30)
    manager.refresh()
    assert asked == [True, False]
    event.remove(store, "before_cursor_execute", note)


def test_an_agent_with_a_slow_clock_is_not_lost(store, make, clocks):
    """Its heartbeats are always older than the newest seen."""
    with writing(store) as writer:
        for host in ("h1", "slow"):
            writer.service(host, is_static=False, last_seen_up=clocks.now)
            writer.node(host)
    manager = make()
    for _ in range(30):
        clocks.go_on(5)
        with writing(store) as writer:
            writer.change_service("h1", is_heartbeat=True, last_seen_up=clocks.now)
            writer.change_service("slow", is_heartbeat=True, last_seen_up=clocks.now - 50 * SECOND)
        manager.refresh()
        assert is_up(manager, "h1")
        assert is_up(manager, "slow")


def test_an_agent_with_a_fast_clock_does_not_hide_the_others(store, make, clocks):
    with writing(store) as writer:
        for host in ("h1", "fast"):
            writer.service(host, is_static=False, last_seen_up=clocks.now)
            writer.node(host)
    manager = make()
    clocks.go_on(70)
    with writing(store) as writer:
        writer.change_service("fast", is_heartbeat=True, last_seen_up=clocks.now + 3600 * SECOND)
    manager.refresh()
    assert not is_up(manager, "h1")
    assert not is_up(manager, "fast")
    clocks.go_on(2)
    with writing(store) as writer:
        writer.change_service("h1", is_heartbeat=True, last_seen_up=clocks.now)
    manager.refresh()
    assert is_up(manager, "h1")
    check(manager)


def test_forced_down_stays_down_whatever_the_agent_says(store, make, clocks):
    with writing(store) as writer:
        writer.service("h1", is_static=False, last_seen_up=clocks.now)
        writer.node("h1")
    manager = make()
    with writing(store) as writer:
        writer.change_service("h1", forced_down=True, disabled=True, disabled_reason="fire")
    assert manager.refresh().changed == 1
    assert not is_up(manager, "h1")
    assert view(manager, "h1").is_disabled
    check(manager)
    clocks.go_on(100)
    manager.refresh()
    check(manager)
    with writing(store) as writer:
        writer.change_service("h1", forced_down=False, last_seen_up=clocks.now)
    manager.refresh()
    assert is_up(manager, "h1")
    check(manager)


def test_an_agent_takes_a_static_host_over(store, make, clocks):
    with writing(store) as writer:
        writer.host("h1")
    manager = make()
    with writing(store) as writer:
        writer.change_service("h1", is_static=False, last_seen_up=clocks.now)
    manager.refresh()
    clocks.go_on(61)
    manager.refresh()
    assert not is_up(manager, "h1")
    check(manager)


def test_all_nodes_of_a_host_share_its_agent(store, make, clocks):
    with writing(store) as writer:
        writer.service("h1", is_static=False, last_seen_up=clocks.now)
        for node in ("n1", "n2"):
            writer.node("h1", node)
    manager = make()
    clocks.go_on(61)
    assert manager.refresh().changed == 2
    assert manager.table.is_up.tolist() == [False, False]


def test_a_down_time_that_is_no_longer_than_the_interval_is_raised(store, make, clocks, caplog):
    with writing(store) as writer:
        writer.service("h1", is_static=False, last_seen_up=clocks.now)
        writer.node("h1")
    manager = make(service_down_time=60, report_interval=61)
    assert "raised to 152 s" in caplog.text
    clocks.go_on(152)
    manager.refresh()
    assert is_up(manager, "h1")
    clocks.go_on(1)
    manager.refresh()
    assert not is_up(manager, "h1")


# --- instances by message ----------------------------------------------------------------------------


@pytest.fixture
def told(store, make):
    """A manager; on h1 runs i1, on h2 nobody."""
    with writing(store) as writer:
        node_id = writer.host("h1")
        writer.instance(node_id, "i1")
        writer.host("h2")
        writer.host("many", "n1")
        writer.host("many", "n2")
    return make()


def on(manager, host):
    return set(manager.table.instances.get(row_of(manager, host), ()))


def test_a_known_host_gets_what_its_agent_tells(told):
    told.update_instance_info("h1", [Instance("i2")])
    assert on(told, "h1") == {"i1", "i2"}
    told.delete_instance_info("h1", "i1")
    told.delete_instance_info("h1", "never there")
    assert on(told, "h1") == {"i2"}


def test_several_instances_of_an_unknown_host_are_taken_for_all(told):
    told.update_instance_info("h2", [Instance("i2"), Instance("i3")])
    assert on(told, "h2") == {"i2", "i3"}


@pytest.mark.parametrize("count", [0, 1])
def test_of_an_unknown_host_with_one_instance_the_store_knows_more(told, store, caplog, count):
    caplog.set_level(logging.INFO)
    with writing(store) as writer:
        writer.server("s1", "h2")
        writer.changes.clear()
    told.update_instance_info("h2", [Instance("i2")][:count])
    assert on(told, "h2") == {"s1"}
    assert "instances of host h2 were read from the database" in caplog.text


def test_who_leaves_an_unknown_host_makes_us_look(told, store):
    with writing(store) as writer:
        writer.server("s1", "h2")
        writer.changes.clear()
    told.delete_instance_info("h2", "i9")
    assert on(told, "h2") == {"s1"}


def test_an_agent_that_knows_the_same_instances_causes_no_read(told, caplog):
    caplog.set_level(logging.INFO)
    told.sync_instance_info("h1", ["i1"])
    assert on(told, "h1") == {"i1"}
    assert "read from the database" not in caplog.text


def test_where_an_agent_knows_others_the_store_decides(told, caplog):
    caplog.set_level(logging.INFO)
    told.update_instance_info("h1", [Instance("i2")])
    told.sync_instance_info("h1", ["i3"])
    assert on(told, "h1") == {"i1"}
    assert "its agent knows of others" in caplog.text
    told.sync_instance_info("h2", [])
    assert "instances of host h2 were read from the database" in caplog.text


def test_a_host_that_nobody_knows_has_no_instances(told, caplog):
    caplog.set_level(logging.INFO)
    told.update_instance_info("nobody", [Instance("i2"), Instance("i3")])
    told.delete_instance_info("nobody", "i2")
    told.sync_instance_info("nobody", ["i2"])
    assert told.table.rows_of_instance("i2") == ()
    assert "instances of host nobody: 0 nodes" in caplog.text


def test_a_message_does_not_say_on_which_of_many_nodes(told):
    told.update_instance_info("many", [Instance("i2"), Instance("i3")])
    assert told.table.rows_of_instance("i2") == ()


def test_messages_count_for_nothing_where_they_are_not_tracked(store, make):
    with writing(store) as writer:
        node_id = writer.host("h1")
        writer.instance(node_id, "i1")
    manager = make(track_instance_changes=False)
    manager.update_instance_info("h1", [Instance("i2")])
    manager.delete_instance_info("h1", "i1")
    manager.sync_instance_info("h1", [])
    assert on(manager, "h1") == {"i1"}


# --- asking ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (("h1", None), [("h1", "n1"), ("h1", "n2")]),
        (("h1", "n2"), [("h1", "n2")]),
        ((None, "n2"), [("h1", "n2")]),
        (("h2", "n2"), []),
        (("H1", None), []),
        ((None, "n3"), [("h2", "n3")]),
        ((None, "n3", "cell2"), [("h3", "n3")]),
        (("h1", None, "cell2"), []),
    ],
)
def test_nodes_by_host_or_node(store, make, asked, expected):
    with writing(store) as writer:
        for host, node in (("h1", "n1"), ("h1", "n2"), ("h2", "n3")):
            writer.host(host, node)
        writer.host("h3", "n3", cell="cell2")
    found = make().get_compute_nodes_by_host_or_node(*asked)
    assert [(each.host, each.nodename) for each in found] == expected


# --- bare metal --------------------------------------------------------------------------------------


def test_bare_metal_is_seen_whole(store, make):
    with writing(store) as writer:
        ids = [writer.host("metal", node, hypervisor_type="ironic", disk_available_least=1) for node in ("n1", "n2")]
        usual = writer.host("usual", disk_available_least=1)
    manager = make(host_manager="ironic_host_manager")
    assert view(manager, "metal", "n1").free_disk_mb == 500 * 1024
    assert view(manager, "usual").free_disk_mb == 1024
    with writing(store) as writer:
        writer.instance(ids[0], "i1", {"VCPU": 16, "MEMORY_MB": 32768, "DISK_GB": 500})
        writer.instance(usual, "i2")
    manager.refresh()
    assert view(manager, "metal", "n1").free_ram_mb == 0
    assert manager.table.rows_of_instance("i1") == ()
    assert manager.table.rows_of_instance("i2") == (2,)
    check(manager)
    manager.update_instance_info("metal", [Instance("i3"), Instance("i4")])
    assert manager.table.rows_of_instance("i3") == ()


# --- trouble -----------------------------------------------------------------------------------------


class Broken(Exception):
    pass


def test_what_could_not_be_read_is_read_the_next_time(store, make, monkeypatch):
    """The log was read, the rows were not: what was in the log is not forgotten."""
    with writing(store) as writer:
        node_id = writer.host("h1")
    manager = make()
    table = manager.table
    with writing(store) as writer:
        writer.instance(node_id, "i1")
        writer.host("h2")
        writer.aggregate("a", ["h1"])

    def fail(*arguments, **more):
        raise Broken

    with monkeypatch.context() as patched:
        patched.setattr("roost.scheduler.own_source.read_nodes", fail)
        with pytest.raises(Broken):
            manager.refresh()
    assert manager.table is table
    assert table.changes.version == 0
    assert manager.refresh().added == 1
    check(manager)


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True, scope="module")
def test_statements_that_the_driver_makes_the_server_forget_are_told_again(store, make):
    """psycopg does so after a rollback, where it has prepared something itself."""
    with writing(store) as writer:
        node_id = writer.host("h1")
    manager = make()
    for number in range(3):
        with writing(store) as writer:
            writer.instance(node_id, f"i{number}")
            writer.aggregate(f"a{number}", ["h1"])
        assert manager.refresh().changed == 1
        for _ in range(40):  # so often, and on all connections there are, that it prepares it
            with store.connect() as connection:
                connection.execute(text("SELECT 1"))
    check(manager)


def test_a_load_that_failed_is_done_again(store, make, monkeypatch):
    with writing(store) as writer:
        writer.host("h1")
    manager = make()
    with monkeypatch.context() as patched:
        patched.setattr("roost.scheduler.own_source.read_heartbeats", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            manager.load()
    assert names(manager) == ["h1"]
    assert manager.refresh().is_full


def test_while_the_database_is_away_the_table_stays_and_then_it_follows_again(opened, clocks):
    server = PostgreSQL(is_durable=True)
    try:
        engine = opened(server.address("postgres"))
        upgrade(engine)
        with writing(engine) as writer:
            node_id = writer.host("h1")
        manager = make_host_manager(engine, SchedulerOptions(), clocks.wall, clocks.monotonic)
        manager.load()
        table = manager.table
        server.kill()
        for _ in range(2):
            with pytest.raises(DatabaseError):
                manager.refresh()
        assert manager.table is table
        assert table.changes.version == 0
        server.start_again()
        with writing(engine) as writer:
            writer.instance(node_id, "i1")
        assert manager.refresh().changed == 1
        check(manager)
        engine.dispose()
    finally:
        server.stop()


def test_a_service_as_the_table_has_it_says_whether_it_is_up(store, make):
    with writing(store) as writer:
        writer.host("h1")
    assert make().table.encoded["service"].at(0) == Service(up=True)
