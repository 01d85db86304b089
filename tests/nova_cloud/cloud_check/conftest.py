# SPDX-License-Identifier: Apache-2.0
"""A nova cloud to check: databases filled from dumps, with a user whose rights a test sets, and a placement."""

import contextlib
import json
from dataclasses import dataclass

import pytest
from tests.nova_cloud.databases.conftest import DUMPS, Filled

from roost.cli.main import main
from roost.nova.databases.api import CELL0_UUID
from roost.nova.databases.tables import API as API_TABLES
from roost.nova.databases.tables import CELL as CELL_TABLES
from roost.trial.private_servers import free_port

USER, PASSWORD = "cloud_reader", "hush-password"


@dataclass(frozen=True)
class Checked:
    """What `roost cloud check -f json` left behind."""

    code: int
    text: str
    """All that was printed, on either stream."""
    probes: list

    def of(self, where, what=None):
        """(result, details) of these rows."""
        return [
            (each["result"], each["details"])
            for each in self.probes
            if each["where"] == where and what in (None, each["what"])
        ]

    def only(self, where, what):
        (found,) = [each for each in self.probes if (each["where"], each["what"]) == (where, what)]
        return found

    @property
    def statements(self):
        """(where, SQL) of rows that have some."""
        return [(each["where"], each["statement"]) for each in self.probes if each["statement"]]


class NovaDatabases:
    """The databases of a cloud with one cell, and a user of theirs that has no right at first."""

    def __init__(self, kind, databases):
        self.kind, self._databases = kind, databases
        self.api, self.cell = Filled(databases.create(kind)), Filled(databases.create(kind))
        self.api.load(DUMPS / f"api.{kind}.sql")
        self.cell.load(DUMPS / f"cell.{kind}.sql")
        self.parts = {"API database": (self.api, API_TABLES), "cell cell1": (self.cell, CELL_TABLES)}
        self.map_cell(self.cell.address)

    @property
    def account(self):
        return USER if self.kind == "postgresql" else f"'{USER}'@'127.0.0.%'"

    def make_user(self):
        if self.kind == "postgresql":
            self.run("API database", f"CREATE ROLE {USER} LOGIN PASSWORD '{PASSWORD}'")
        else:
            self.run("API database", f"CREATE USER {self.account} IDENTIFIED BY '{PASSWORD}'")

    def drop_user(self):
        if self.kind == "postgresql":
            for where in self.parts:
                self.run(where, f"DROP OWNED BY {USER}")
            self.run("API database", f"DROP ROLE {USER}")
        else:
            self.run("API database", f"DROP USER {self.account}")

    def grant_all(self):
        for where, (_, tables) in self.parts.items():
            for name in tables.tables:
                self.run(where, f"GRANT SELECT ON {name} TO {self.account}")

    def run(self, where, statement):
        """As administrator of a database."""
        with self.parts[where][0].engine.connect() as connection:
            connection.exec_driver_sql(statement.replace("%", "%%"))

    def address(self, where, login=f"{USER}:{PASSWORD}"):
        address = self.parts[where][0].address
        scheme, _, rest = address.partition("://")
        return f"{scheme}://{login}@{rest.partition('@')[2]}"

    def map_cell(self, address, **more):
        self.api.change("cell_mappings", {"name": "cell1"}, database_connection=address, **more)
        down = f"mysql+pymysql://nova:{PASSWORD}@127.0.0.1:{free_port()}/nova_cell0"
        self.api.change("cell_mappings", {"uuid": CELL0_UUID}, database_connection=down)

    @contextlib.contextmanager
    def mapped_to(self, address, **more):
        """While this lasts, the mapping of the cell has this address."""
        self.map_cell(address, **more)
        try:
            yield
        finally:
            self.map_cell(self.cell.address, disabled=False)


@pytest.fixture(scope="session", params=["mariadb", "postgresql"])
def kind(request):
    return request.param


@pytest.fixture(scope="session")
def stored(kind, databases):
    made = NovaDatabases(kind, databases)
    yield made
    for each, _ in made.parts.values():
        each.engine.dispose()


@pytest.fixture
def nova(stored):
    """Databases of nova's, with a new user."""
    stored.make_user()
    yield stored
    stored.drop_user()


@pytest.fixture
def check(tmp_path, capsys):
    """`roost cloud check` with options that are given by section; by default with no placement."""
    nowhere = f"http://127.0.0.1:{free_port()}"

    def run(api_connection, placement="", **sections):
        written = {
            "DEFAULT": {"transport_url": "in-process://"},
            "api_database": {"connection": api_connection},
            "placement": {"auth_type": "admin_token", "endpoint": placement or nowhere, "token": "admin"},
            "roost": {"cloud": "nova", "cell_database_user": USER, "cell_database_password": PASSWORD},
        }
        for name, options in sections.items():
            written[name] = written.get(name, {}) | options
        file = tmp_path / "nova.conf"
        lines = [f"[{name}]\n" + "".join(f"{k} = {v}\n" for k, v in each.items()) for name, each in written.items()]
        file.write_text("".join(lines))
        code = main(["cloud", "check", "--config-file", str(file), "-f", "json"])
        printed = capsys.readouterr()
        return Checked(code, printed.out + printed.err, json.loads(printed.out)["probes"])

    return run
