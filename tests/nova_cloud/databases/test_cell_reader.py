# SPDX-License-Identifier: Apache-2.0
"""What is read from a cell's database that a real nova has filled."""

from datetime import timedelta

import pytest
from sqlalchemy import event, text
from tests.nova_cloud.databases.conftest import BUSY_HOST, CELL_UUID

from roost.errors import DatabaseError, DatabaseReadOnly, DatabaseRefused, DatabaseUnreachable
from roost.hosts import HostRecord
from roost.model import Service
from roost.nova.databases.engines import open_read_only, parse_nova_url, reading


def node_of(changes, host):
    return next(node for node in changes.nodes if node.fields["host"] == host)


def test_a_node_with_servers_is_read_as_nova_sees_it(reader, kind):
    node = node_of(reader.read_all(), BUSY_HOST[kind])
    record = HostRecord(**node.fields)
    assert (record.node, record.cell) == (BUSY_HOST[kind], CELL_UUID)
    assert (record.total_usable_ram_mb, record.free_ram_mb) == (32768, 32768 - 3 * 512 - 2048 - 1024)
    assert (record.vcpus_total, record.vcpus_used) == (16, 9)
    assert (record.total_usable_disk_gb, record.disk_mb_used) == (500, 8 * 1024)
    assert (record.num_instances, record.num_io_ops, record.failed_builds) == (5, int(record.stats["io_workload"]), 0)
    assert (record.cpu_allocation_ratio, record.ram_allocation_ratio, record.disk_allocation_ratio) == (4.0, 1.0, 1.0)
    assert (record.hypervisor_type, record.hypervisor_version, record.host_ip) == ("fake", 1000, "127.0.0.1")
    assert record.supported_instances == (("x86_64", "fake", "hvm"),)
    assert record.cpu_info["topology"] == {"cores": 1, "threads": 1, "sockets": 4}
    assert record.metrics == record.pci_pools == ()


def test_free_disk_is_at_most_disk_available_least_which_the_fake_driver_says_is_0(reader, kind):
    assert node_of(reader.read_all(), BUSY_HOST[kind]).fields["free_disk_mb"] == 0


def test_numa_cells_have_the_usage_of_pinned_and_spread_servers(reader, kind):
    nodes = reader.read_all()
    topology = node_of(nodes, BUSY_HOST[kind]).fields["numa"]
    assert [len(cell.cpuset) for cell in topology.cells] == [8, 8]
    assert sum(cell.memory_usage for cell in topology.cells) == 2048 + 1024
    assert sum(len(cell.pinned_cpus) for cell in topology.cells) == 2
    assert sum(pool.used * pool.size_kb for cell in topology.cells for pool in cell.mempages) == 3072 * 1024
    assert node_of(nodes, "host1").fields["numa"] is None


def test_services_have_the_flags_that_operators_set_and_their_last_heartbeat(reader, stored_cell):
    changes = reader.read_all()
    assert {host: each.service for host, each in changes.services.items()} == {
        "host0": Service(),
        "host1": Service(),
        "host2": Service(forced_down=True),
        "host3": Service(disabled=True, disabled_reason="being repaired"),
    }
    assert {each.version for each in changes.services.values()} == {74}
    rows = {row["host"]: row["last_seen_up"] for row in stored_cell.rows("services", topic="compute")}
    assert {host: seen.replace(tzinfo=None) for host, seen in changes.heartbeats.items()} == rows


def test_instances_are_those_that_live_and_have_a_host(reader, kind):
    changes = reader.read_all()
    assert list(changes.instances) == [BUSY_HOST[kind]]
    placed = changes.instances[BUSY_HOST[kind]]
    assert sorted(each.instance.flavor.name for each in placed) == ["v1-512-1"] * 3 + ["v2-1024-2", "v4-2048-3"]
    by_name = {each.instance.flavor.name: each for each in placed}
    assert by_name["v4-2048-3"].instance.flavor.extra_specs == {"hw:numa_nodes": "2"}
    assert by_name["v4-2048-3"].instance.resources == {"VCPU": 4, "MEMORY_MB": 2048, "DISK_GB": 3}
    assert by_name["v4-2048-3"].instance.flavor_id == by_name["v4-2048-3"].instance.flavor.id
    assert {(each.vm_state, each.task_state, each.user_id, each.node) for each in placed} == {
        ("active", None, "admin", BUSY_HOST[kind])
    }


def test_an_idle_cell_costs_three_statements_and_changes_nothing(reader):
    reader.read_all()
    statements = []
    event.listen(reader._engine, "before_cursor_execute", lambda *each: statements.append(each[2]))
    assert not reader.read_changes()
    assert len(statements) == 3


def test_flags_are_read_in_one_statement(reader, stored_cell):
    reader.read_all()
    statements = []
    event.listen(reader._engine, "before_cursor_execute", lambda *each: statements.append(each[2]))
    stored_cell.change("services", {"host": "host1"}, disabled=True)
    assert {host: each.service for host, each in reader.read_flags().services.items()} == {
        "host1": Service(disabled=True)
    }
    assert not reader.read_flags()
    stored_cell.change("services", {"host": "host1"}, disabled=False)
    assert reader.read_flags().services["host1"].service == Service()
    assert len(statements) == 3


def test_flags_that_are_read_first_are_read_with_everything_else(reader):
    assert reader.read_flags().is_full


def test_without_heartbeats_only_flags_are_read(reader, stored_cell, clock):
    reader.read_all()
    now = clock.now().replace(tzinfo=None)
    before = stored_cell.rows("services", host="host0")[0]
    stored_cell.change("services", {"host": "host0"}, last_seen_up=now, updated_at=now)
    stored_cell.change("services", {"host": "host1"}, forced_down=True)
    changes = reader.read_changes(heartbeats=False)
    assert {host: each.service for host, each in changes.services.items()} == {"host1": Service(forced_down=True)}
    assert not changes.heartbeats
    stored_cell.change("services", {"host": "host1"}, forced_down=False)
    assert reader.read_changes(heartbeats=False).services["host1"].service == Service()
    assert reader.read_changes().heartbeats == {"host0": clock.now()}
    stored_cell.change("services", {"host": "host0"}, **{k: before[k] for k in ("last_seen_up", "updated_at")})


@pytest.fixture
def changed_node(stored_cell, clock):
    """Changes host1's node, and puts it back."""
    before = stored_cell.rows("compute_nodes", host="host1")[0]

    def change(**values):
        moment = clock.now().replace(tzinfo=None)
        stored_cell.change("compute_nodes", {"host": "host1"}, **({"updated_at": moment} | values))

    yield change
    change(**{name: before[name] for name in ("stats", "free_disk_gb", "pci_stats", "metrics", "updated_at")})


def test_a_node_that_has_not_reported_has_no_amounts(reader, changed_node):
    changed_node(free_disk_gb=None)
    fields = node_of(reader.read_all(), "host1").fields
    assert (fields["free_ram_mb"], fields["vcpus_used"], fields["hypervisor_type"]) == (0, 0, None)
    assert "total_usable_ram_mb" not in fields
    assert "allocations" not in fields


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("stats", "{nonsense", "stats: is not what nova writes there"),
        ("stats", '{"io_workload": "many"}', "stats.io_workload: 'many' is no number"),
        ("pci_stats", '{"nova_object.name": "Other"}', "pci_stats: is an object"),
        ("metrics", '[{"value": 1}]', "metrics: {'value': 1} has no name or no value"),
    ],
)
def test_a_node_that_cannot_be_understood_is_left_out_until_it_can(reader, changed_node, clock, column, value, said):
    number = node_of(reader.read_all(), "host1").id
    changed_node(**{column: value})
    changes = reader.read_changes()
    assert changes.removed_nodes == {number}
    assert [f"compute node {number} of host host1 is left out: {said}" in each for each in changes.problems] == [True]
    assert not reader.read_changes()
    clock.turn(1)
    changed_node(**{column: None})
    assert [node.id for node in reader.read_changes().nodes] == [number]


def test_image_properties_are_read_where_they_are_wanted(make_reader, stored_cell, kind):
    first = make_reader(stored_cell).read_all().instances[BUSY_HOST[kind]][0].instance
    assert first.image_props == {}
    row = stored_cell.rows("instance_system_metadata", instance_uuid=first.uuid)[0]
    stored_cell.change("instance_system_metadata", {"id": row["id"]}, key="image_os_type", value="linux")
    found = make_reader(stored_cell, reads_image_properties=True).read_all().instances[BUSY_HOST[kind]][0].instance
    assert found.image_props == {"os_type": "linux"}
    assert "image_os_type" not in found.system_metadata
    assert found.system_metadata["image_disk_format"] == "raw"
    stored_cell.change("instance_system_metadata", {"id": row["id"]}, key=row["key"], value=row["value"])


def test_a_writer_whose_clock_is_ahead_does_not_hide_the_others(reader, changed_node, clock, stored_cell):
    reader.read_all()
    changed_node(stats='{"num_instances": "3"}', updated_at=clock.now().replace(tzinfo=None) + timedelta(hours=1))
    assert node_of(reader.read_changes(), "host1").fields["num_instances"] == 3
    clock.turn(10)
    changed_node(stats='{"num_instances": "4"}')
    assert node_of(reader.read_changes(), "host1").fields["num_instances"] == 4


# --- rights and outages ------------------------------------------------------------------------------


@pytest.mark.parametrize("statement", ["UPDATE services SET disabled = NULL", "DELETE FROM compute_nodes"])
def test_a_statement_that_writes_fails_even_for_the_administrator(opened, stored_cell, statement):
    engine = opened(stored_cell.address)
    with pytest.raises(DatabaseReadOnly), reading(engine, "x") as connection:
        connection.execute(text(statement))


def test_a_wrong_password_is_said_with_the_cell_and_without_the_password(make_reader, stored_cell, kind):
    reader = make_reader(stored_cell)
    url = parse_nova_url(stored_cell.address, "x").set(username="roost", password="wrong-secret")
    reader._engine = open_read_only(url)
    with pytest.raises(DatabaseError) as caught:
        reader.read_all()
    assert isinstance(caught.value, DatabaseRefused)
    assert "in the mapping of cell 'cell1'" in str(caught.value)
    assert "wrong-secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_cell_that_was_down_is_read_again_when_it_is_back(databases, reader, changed_node, kind):
    reader.read_all()
    server = databases.server(kind)
    server.process.send_signal(server.stop_signal)
    server.process.wait()
    for _ in range(2):
        with pytest.raises(DatabaseUnreachable, match="cannot be reached"):
            reader.read_changes()
    server.start_again()
    changed_node(stats='{"num_instances": "7"}')
    changes = reader.read_changes()
    assert not changes.is_full
    assert [node.fields["num_instances"] for node in changes.nodes] == [7]
