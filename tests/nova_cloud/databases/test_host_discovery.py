# SPDX-License-Identifier: Apache-2.0
"""New compute hosts are mapped to their cells, as `nova-manage cell_v2 discover_hosts` does."""

import logging

import pytest
from sqlalchemy.exc import IntegrityError
from tests.nova_cloud.databases.rights import add_user
from tests.nova_cloud.own_log import own_messages

from roost.errors import DatabaseError, DatabaseRefused, DatabaseUnreachable
from roost.nova.backend import HostDiscovery
from roost.nova.databases.api import CELL0_UUID, CellAddresses
from roost.nova.databases.engines import parse_nova_url
from roost.nova.databases.table_rights import REFUSED_SECONDS, RepeatedWrite

GONE = "mysql+pymysql://nova@127.0.0.1:1/nova"


@pytest.fixture
def cloud(api, stored_cell):
    """Host 1 is new. What a test changes is put back."""
    kept = {"host_mappings": api, "cell_mappings": api, "compute_nodes": stored_cell}
    before = {name: stored.rows(name) for name, stored in kept.items()}
    api.change("cell_mappings", {"name": "cell1"}, database_connection=stored_cell.address)
    api.change("cell_mappings", {"uuid": CELL0_UUID}, database_connection=GONE)
    api.remove("host_mappings", host="host1")
    stored_cell.change("compute_nodes", {"host": "host1"}, mapped=0)
    yield api
    for name in ("host_mappings", "cell_mappings"):
        api.remove(name, **({} if name == "host_mappings" else {"name": "added"}))
    for row in before["cell_mappings"]:
        api.change("cell_mappings", {"id": row["id"]}, **row)
    for row in before["host_mappings"]:
        api.add("host_mappings", row)
    for row in before["compute_nodes"]:
        stored_cell.change("compute_nodes", {"id": row["id"]}, mapped=row["mapped"])


@pytest.fixture
def make_discovery(cloud, clock):
    def make(address=cloud.address):
        return HostDiscovery(parse_nova_url(address, "the test's address"), CellAddresses(), clock.now)

    return make


def cell_of(api, host):
    return [row["cell_id"] for row in api.rows("host_mappings", host=host)]


def unmapped(stored_cell):
    return [row["host"] for row in stored_cell.rows("compute_nodes", mapped=0, deleted=0)]


def test_a_new_host_is_mapped_to_the_cell_where_its_node_is(cloud, make_discovery, stored_cell, clock, caplog):
    caplog.set_level(logging.INFO)
    assert make_discovery().discover() == 1
    assert cell_of(cloud, "host1") == [2]
    assert cloud.rows("host_mappings", host="host1")[0]["created_at"] == clock.now().replace(tzinfo=None)
    assert unmapped(stored_cell) == []
    assert own_messages(caplog) == ["host host1 is mapped to cell cell1"]


def test_a_second_search_finds_nothing(make_discovery, caplog):
    make_discovery().discover()
    caplog.set_level(logging.INFO)
    caplog.clear()
    assert make_discovery().discover() == 0
    assert own_messages(caplog) == []


def test_only_the_column_that_says_so_is_written(make_discovery, stored_cell):
    before = stored_cell.rows("compute_nodes", host="host1")[0]
    make_discovery().discover()
    assert stored_cell.rows("compute_nodes", host="host1")[0] == before | {"mapped": 1}


def test_a_host_that_nova_manage_has_mapped_in_the_meantime_is_no_failure(
    cloud, make_discovery, stored_cell, monkeypatch
):
    """Both have seen that the mapping is missing; the other one is faster."""
    discovery = make_discovery()
    usual = discovery._map_host

    def be_late(connection, cell, host):
        late = _Late(connection, lambda: cloud.add("host_mappings", {"host": host, "cell_id": 2}))
        return usual(late, cell, host)

    monkeypatch.setattr(discovery, "_map_host", be_late)
    assert discovery.discover() == 0
    assert (cell_of(cloud, "host1"), unmapped(stored_cell)) == ([2], [])


class _Late:
    """A connection on which another writer comes between reading and writing."""

    def __init__(self, connection, before_write):
        self._connection, self._before_write = connection, before_write

    def scalar(self, statement):
        return self._connection.scalar(statement)

    def execute(self, statement):
        self._before_write()
        return self._connection.execute(statement)


def test_a_host_that_is_mapped_to_another_cell_stays_there_and_is_reported_once(cloud, make_discovery, caplog):
    cloud.add("host_mappings", {"host": "host1", "cell_id": 1})
    assert make_discovery().discover() == 0
    assert make_discovery().discover() == 0
    assert cell_of(cloud, "host1") == [1]
    assert own_messages(caplog) == ["host host1 has a node in cell cell1, and is mapped to another cell: rename it"]


def test_cell0_and_disabled_cells_are_not_searched(cloud, make_discovery):
    """cell0's address leads nowhere here; so an attempt would fail."""
    cloud.change("cell_mappings", {"name": "cell1"}, disabled=True)
    assert make_discovery().discover() == 0
    assert cell_of(cloud, "host1") == []


def test_a_cell_that_is_down_does_not_keep_the_others_from_being_searched(cloud, make_discovery):
    (row,) = cloud.rows("cell_mappings", name="cell1")
    down = {"uuid": "7" * 8 + "-0000-4000-8000-000000000000", "name": "added", "database_connection": GONE}
    cloud.add("cell_mappings", row | {"id": 9} | down)
    with pytest.raises(DatabaseUnreachable, match="Can't connect"):
        make_discovery().discover()
    assert cell_of(cloud, "host1") == [2]


def test_without_the_right_to_write_the_error_says_what_is_needed(
    cloud, make_discovery, databases, kind, stored_cell
):
    reader = add_user(databases, kind, cloud, "discovery_reader", "SELECT")
    with pytest.raises(DatabaseRefused, match=r"it needs: GRANT SELECT, INSERT ON [\w.]*host_mappings TO"):
        make_discovery(reader).discover()
    assert (cell_of(cloud, "host1"), unmapped(stored_cell)) == ([], ["host1"])
    of_cell = add_user(databases, kind, stored_cell, "discovery_reader", "SELECT")
    cloud.change("cell_mappings", {"name": "cell1"}, database_connection=of_cell)
    with pytest.raises(DatabaseRefused, match=r"it needs: GRANT SELECT, UPDATE ON [\w.]*compute_nodes TO"):
        make_discovery().discover()
    assert cell_of(cloud, "host1") == [2]


def add_cell(cloud, address):
    (row,) = cloud.rows("cell_mappings", name="cell1")
    more = {"uuid": "7" * 8 + "-0000-4000-8000-000000000000", "name": "added", "database_connection": address}
    cloud.add("cell_mappings", row | {"id": 9} | more)


def test_a_cell_that_is_down_does_not_hide_one_that_refuses(cloud, make_discovery, databases, kind, stored_cell):
    add_cell(cloud, GONE)
    refusing = add_user(databases, kind, stored_cell, "discovery_reader", "SELECT")
    cloud.change("cell_mappings", {"name": "cell1"}, database_connection=refusing)
    with pytest.raises(DatabaseError, match=r"GRANT SELECT, UPDATE ON [\w.]*compute_nodes TO.*Can't connect"):
        make_discovery().discover()


def test_a_cell_that_refuses_does_not_delay_others_and_is_retried_rarely(
    cloud, make_discovery, databases, kind, stored_cell, clock, monkeypatch
):
    add_cell(cloud, stored_cell.address)
    refusing = add_user(databases, kind, stored_cell, "discovery_reader", "SELECT")
    cloud.change("cell_mappings", {"name": "cell1"}, database_connection=refusing)
    discovery, tried = make_discovery(), []
    usual = discovery._discover_in
    monkeypatch.setattr(discovery, "_discover_in", lambda cell: tried.append(cell.name) or usual(cell))
    writes = RepeatedWrite(discovery.discover, lambda: 10.0)
    for _ in range(2):
        stored_cell.change("compute_nodes", {"host": "host1"}, mapped=0)
        with pytest.raises(DatabaseError, match="GRANT"):
            writes.run()
        assert writes.seconds() == 10
        assert unmapped(stored_cell) == []
    assert tried == ["cell1", "added", "added"]
    clock.turn(REFUSED_SECONDS)
    writes.run()
    assert tried[3:] == ["cell1", "added"]


def test_a_host_that_cannot_be_mapped_is_not_said_to_be(cloud, make_discovery, stored_cell, monkeypatch):
    def refuse(*_):
        raise IntegrityError("", None, Exception(1452, "a foreign key constraint fails"))

    monkeypatch.setattr("roost.nova.backend.insert", refuse)
    with pytest.raises(DatabaseError, match=r"host host1 cannot be mapped to cell cell1: .*foreign key"):
        make_discovery().discover()
    assert unmapped(stored_cell) == ["host1"]
