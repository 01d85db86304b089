# SPDX-License-Identifier: Apache-2.0
"""What is read from an API database that a real nova has filled."""

import pytest
from sqlalchemy import event

from roost.errors import BadInput
from roost.messages.objects.request import request_from_object
from roost.model import Aggregate
from roost.nova.databases.api import CELL0_UUID, ApiReader, CellAddresses
from roost.scheduler.options import CellDatabaseOptions


@pytest.fixture
def make_api_reader(opened, api, clock):
    def make(addresses=None):
        return ApiReader(opened(api.address), addresses or CellAddresses(), clock)

    return make


@pytest.fixture
def reader(make_api_reader):
    return make_api_reader()


def test_cells_are_those_of_the_mappings(reader):
    cell0, cell1 = reader.read_all().cells
    assert (cell0.uuid, cell0.is_cell0, cell1.name, cell1.is_cell0) == (CELL0_UUID, True, "cell1", False)
    assert cell1.address == f"{cell1.url.get_backend_name()}://nova:***@db.internal:{cell1.url.port}/nova_cell1"
    assert cell1.url.password == "secret"
    assert "secret" not in repr(cell1)


def test_a_cell_that_cannot_be_reached_by_its_address_is_left_out_and_said(make_api_reader, api):
    before = api.rows("cell_mappings", name="cell1")[0]["database_connection"]
    api.change("cell_mappings", {"name": "cell1"}, database_connection="{scheme}://u:hidden@{hostname}/x")
    try:
        state = make_api_reader().read_all()
        assert [cell.name for cell in state.cells] == ["cell0"]
        assert len(state.problems) == 1
        assert "cell cell1 is left out" in state.problems[0]
        assert "set [database] connection" in state.problems[0]
        assert "hidden" not in state.problems[0]
        addresses = CellAddresses("mysql://a:b@db.internal/nova", CellDatabaseOptions("reader", "open-sesame"))
        cell = make_api_reader(addresses).read_all().cells[1]
        assert cell.url.render_as_string(hide_password=False) == "mysql+pymysql://reader:open-sesame@db.internal/x"
    finally:
        api.change("cell_mappings", {"name": "cell1"}, database_connection=before)


def test_hosts_are_mapped_to_the_number_of_their_cell(reader):
    state = reader.read_all()
    assert state.host_cells == dict.fromkeys(("host0", "host1", "host2", "host3"), state.cells[1].id)


def test_aggregates_have_their_hosts_and_metadata(reader, api):
    rows = {row["name"]: row for row in api.rows("aggregates")}
    assert reader.read_all().aggregates == tuple(
        Aggregate(name, metadata, hosts, rows[name]["id"], rows[name]["uuid"])
        for name, metadata, hosts in (
            ("east", {"availability_zone": "zone-east"}, ("host0", "host1")),
            ("ssd", {"disk": "ssd", "note": "café"}, ("host1", "host2")),
            ("empty", {}, ()),
        )
    )


def test_groups_have_policy_rules_and_members(reader, api):
    rows = {row["name"]: row for row in api.rows("instance_groups")}
    member = api.rows("instance_group_member", group_id=rows["spread"]["id"])[0]["instance_uuid"]
    found = reader.read_groups([rows["spread"]["uuid"], rows["near"]["uuid"], CELL0_UUID])
    spread, near = found[rows["spread"]["uuid"]], found[rows["near"]["uuid"]]
    assert len(found) == 2
    assert (spread.policy, spread.name, spread.max_server_per_host) == ("anti-affinity", "spread", 2)
    assert spread.members == (member,)
    assert (near.policy, near.max_server_per_host, len(near.members)) == ("soft-affinity", 1, 1)


def test_the_stored_request_of_an_instance(reader, api):
    (row,) = api.rows("request_specs")
    spec = request_from_object(reader.read_request_spec(row["instance_uuid"]))
    assert (spec.instance_uuid, spec.flavor.vcpus, spec.is_bfv) == (row["instance_uuid"], 1, False)
    with pytest.raises(BadInput, match="nova's API database has no request of the instance 6f0a"):
        reader.read_request_spec("6f0a")


def test_an_unchanged_database_costs_one_statement(reader):
    reader.read_all()
    statements = []
    event.listen(reader._engine, "before_cursor_execute", lambda *each: statements.append(each[2]))
    assert reader.read_changes() is None
    assert len(statements) == 1


def test_each_kind_of_change_is_noticed(reader, api, clock):
    before = reader.read_all()
    number, now = before.aggregates[0].id, clock.now().replace(tzinfo=None)
    row = {"id": 77, "created_at": now, "updated_at": None, "aggregate_id": number, "host": "host3"}
    api.add("aggregate_hosts", row)
    assert reader.read_changes().aggregates[0].hosts == ("host0", "host1", "host3")
    api.change("aggregate_metadata", {"aggregate_id": number}, value="west", updated_at=now)
    assert reader.read_changes().aggregates[0].availability_zone == "west"
    api.change("aggregate_metadata", {"aggregate_id": number}, value="zone-east", updated_at=now)
    assert reader.read_changes().aggregates[0].availability_zone == "zone-east", "within the same second"
    api.remove("aggregate_hosts", id=77)
    assert reader.read_changes() == before
    api.change("aggregate_metadata", {"aggregate_id": number}, updated_at=None)
    assert reader.read_changes() is None


def test_a_change_that_the_summary_misses_is_found_within_a_minute(reader, api, clock):
    reader.read_all()
    api.change("aggregates", {"name": "empty"}, name="renamed")
    try:
        assert reader.read_changes() is None
        clock.turn(61)
        assert reader.read_changes().aggregates[2].name == "renamed"
    finally:
        api.change("aggregates", {"name": "renamed"}, name="empty")


def test_instances_are_in_a_cell_in_cell0_in_none_or_nowhere(reader):
    assert reader.cell0_id is None
    state = reader.read_all()
    cells = {cell.id: cell.name for cell in state.cells}
    uuids = [f"{digit * 8}-{digit * 4}-4{digit * 3}-8{digit * 3}-{digit * 12}" for digit in "1234"]
    found = reader.read_instance_cells(uuids)
    assert [cells.get(found[uuid]) for uuid in uuids[:3]] == ["cell1", "cell0", None]
    assert uuids[3] not in found
    assert cells[reader.cell0_id] == "cell0"


def test_all_groups_are_those_that_are_read_by_their_uuids(reader, api):
    uuids = [row["uuid"] for row in api.rows("instance_groups")]
    assert uuids
    assert {each.uuid: each for each in reader.read_all_groups()} == reader.read_groups(uuids)
