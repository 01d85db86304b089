# SPDX-License-Identifier: Apache-2.0
"""New databases on private servers, which are started when a test first needs them, once per process."""

import itertools

from sqlalchemy import create_engine, text
from tests.store.servers import MariaDB, PostgreSQL

from roost.store.engine import parse_database_url


class Databases:
    """Makes empty databases; a server is started when it is first needed."""

    def __init__(self, folder):
        self.folder = folder
        self.servers = {}
        self.numbers = itertools.count(1)

    def server(self, kind):
        if kind not in self.servers:
            self.servers[kind] = {"postgresql": PostgreSQL, "mariadb": MariaDB}[kind]()
        return self.servers[kind]

    def create(self, kind):
        """The address of a database that is new and empty."""
        name = f"roost_{next(self.numbers)}"
        if kind == "sqlite":
            return f"sqlite:///{self.folder}/{name}.db"
        return self.server(kind).create_database(name)

    def execute(self, kind, *statements, database=None):
        """Statements for the server itself, as its administrator."""
        name = database or {"postgresql": "postgres", "mariadb": "mysql"}[kind]
        engine = create_engine(parse_database_url(self.server(kind).address(name)), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            for statement in statements:
                connection.execute(text(statement))
        engine.dispose()

    def stop(self):
        for server in self.servers.values():
            server.stop()
