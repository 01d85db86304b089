# SPDX-License-Identifier: Apache-2.0
"""SQLite databases with all tables, as copies of one that is upgraded once per process."""

import tempfile
from functools import cache
from pathlib import Path

from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

from roost.store.engine import open_engine
from roost.store.options import DatabaseOptions
from roost.store.schema_upgrade import upgrade

COMPILED: dict = {}
"""Compiled statements of all engines here: a test uses most of its statements once, and compiling takes longest."""


class SharedDialect(SQLiteDialect_pysqlite):
    """Equal to each other: the dialect is a part of the keys of compiled statements."""

    supports_statement_cache = True

    def __eq__(self, other):
        return type(other) is SharedDialect

    def __hash__(self):
        return 1


def open_upgraded(folder):
    """An engine on a new database with all tables, in a file of this folder."""
    file = Path(folder, "roost.db")
    file.write_bytes(upgraded_file())
    engine = open_engine(DatabaseOptions(connection=f"sqlite:///{file}"))
    engine.dialect.__class__ = SharedDialect
    return engine.execution_options(compiled_cache=COMPILED)


@cache
def upgraded_file():
    """A database with all tables, made once per process: a copy takes a fraction of the time of an upgrade."""
    with tempfile.TemporaryDirectory() as folder:
        engine = open_engine(DatabaseOptions(connection=f"sqlite:///{folder}/template.db"), may_create=True)
        upgrade(engine)
        engine.dispose()
        return Path(folder, "template.db").read_bytes()
