# SPDX-License-Identifier: Apache-2.0
"""A user with the right to SELECT is enough for the replica: the server's log has no statement that writes."""

import re

import pytest
from tests.nova_cloud.databases.rights import add_user

from roost.nova.databases.api import ApiReader, Cell, CellAddresses
from roost.nova.databases.engines import open_read_only, parse_nova_url
from roost.nova.databases.followers import CellReader
from roost.scheduler.options import CellDatabaseOptions

USER = "select_only"
HARMLESS = {"SELECT", "SET", "BEGIN", "COMMIT", "ROLLBACK", "SHOW"}


class StatementLog:
    """The statements of one user, as the server logs them."""

    def __init__(self, databases, kind):
        self._databases, self._kind = databases, kind
        self._file = databases.server(kind).log

    def begin(self):
        if self._kind == "mariadb":
            self._databases.execute(self._kind, "SET GLOBAL log_output = 'FILE'")
            self._file = self._databases.server(self._kind).folder / "statements.log"
            self._databases.execute(self._kind, f"SET GLOBAL general_log_file = '{self._file}'")
            self._databases.execute(self._kind, "SET GLOBAL general_log = ON")
        else:
            self._databases.execute(self._kind, f"ALTER ROLE {USER} SET log_statement = 'all'")
        self._start = self._file.stat().st_size

    def end(self):
        if self._kind == "mariadb":
            self._databases.execute(self._kind, "SET GLOBAL general_log = OFF")
        text = self._file.read_text()[self._start :]
        return _mariadb_statements(text) if self._kind == "mariadb" else _postgresql_statements(text)


def _mariadb_statements(text):
    """Statements of the sessions of USER: lines are `time? session command argument`."""
    events = re.findall(r"^(?:\d{6} +\d+:\d+:\d+)?\t+ *(\d+) (Connect|Query|Prepare|Execute)\t(.*)$", text, re.M)
    sessions = {number for number, command, rest in events if command == "Connect" and rest.startswith(f"{USER}@")}
    return [rest for number, command, rest in events if number in sessions and command != "Connect"]


def _postgresql_statements(text):
    return re.findall(r"LOG:  (?:statement|execute [^:]*): (.*)$", text, re.M)


@pytest.fixture
def addresses(databases, kind, api, stored_cell):
    """The addresses of both databases for a user that has nothing but SELECT; the mapping has nova's own user."""
    before = api.rows("cell_mappings", name="cell1")[0]["database_connection"]
    api.change("cell_mappings", {"name": "cell1"}, database_connection=stored_cell.address)
    yield [add_user(databases, kind, stored, USER, "SELECT") for stored in (api, stored_cell)]
    api.change("cell_mappings", {"name": "cell1"}, database_connection=before)


def read_everything(address, clock, group):
    """Read all of the cloud as the replica does, then what changed."""
    engine = open_read_only(parse_nova_url(address, "the test's address"))
    options = CellDatabaseOptions(cell_database_user=USER)
    reader = ApiReader(engine, CellAddresses(None, options), clock)
    (cell,) = [each for each in reader.read_all().cells if each.name == "cell1"]
    reader.read_changes()
    assert reader.read_groups([group])
    nodes = read_cell(cell, clock)
    engine.dispose()
    return nodes


def read_cell(cell: Cell, clock):
    engine = open_read_only(cell.url)
    reader = CellReader(cell, engine, clock, reads_image_properties=True)
    nodes = reader.read_all().nodes
    reader.read_changes()
    clock.turn(100)
    reader.read_changes(heartbeats=False)
    engine.dispose()
    return nodes


def test_the_replica_is_read_and_the_servers_log_has_no_statement_that_writes(databases, kind, api, addresses, clock):
    group = api.rows("instance_groups")[0]["uuid"]
    log = StatementLog(databases, kind)
    log.begin()
    nodes = read_everything(addresses[0], clock, group)
    statements = log.end()
    assert len(nodes) == 4
    assert {each.split()[0].upper() for each in statements} <= HARMLESS
    assert len([each for each in statements if each.startswith("SELECT")]) > 15
    assert not [each for each in statements if re.search(r"\bFOR (UPDATE|SHARE)\b|\bINTO\b", each)]
