# SPDX-License-Identifier: Apache-2.0
"""SQLite databases with all tables, as copies of one that is upgraded once per process."""

import tempfile
from functools import cache
from pathlib import Path

from roost.store.engine import open_engine
from roost.store.options import DatabaseOptions
from roost.store.schema_upgrade import upgrade


def open_upgraded(folder):
    """An engine on a new database with all tables, in a file of this folder."""
    file = Path(folder, "roost.db")
    file.write_bytes(upgraded_file())
    return open_engine(DatabaseOptions(connection=f"sqlite:///{file}"))


@cache
def upgraded_file():
    """A database with all tables, made once per process: a copy takes a fraction of the time of an upgrade."""
    with tempfile.TemporaryDirectory() as folder:
        engine = open_engine(DatabaseOptions(connection=f"sqlite:///{folder}/template.db"), may_create=True)
        upgrade(engine)
        engine.dispose()
        return Path(folder, "template.db").read_bytes()
