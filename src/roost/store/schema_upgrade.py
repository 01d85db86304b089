# SPDX-License-Identifier: Apache-2.0
"""Brings the tables of a database up to date, and says whether they are.

Revisions are modules in `revisions/`, numbered; each says what changes. The table `roost_version` holds the number
that a database has. alembic does the work; there is no env.py and no ini file, so an installed wheel is all it takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.runtime.environment import EnvironmentContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, inspect, text

from roost.errors import SchemaError
from roost.store.database_url import show_address
from roost.store.engine import BEGINS_WRITING, MARIADB_LIMITS
from roost.store.error_mapping import database_errors
from roost.store.schema import metadata

REVISIONS = Path(__file__).with_name("revisions")
VERSION_TABLE = "roost_version"
UPGRADE_LOCK = 7_263_741
"""Key of the lock that lets one upgrade run at a time, whoever starts it."""
MARIADB_LOCK = "CONCAT('roost.', MD5(DATABASE()))"
LOCK_SECONDS = 600

CURRENT = "current"
EMPTY = "empty"
UNFINISHED = "unfinished"
OLDER = "older"
NEWER = "newer"
FOREIGN = "foreign"
DAMAGED = "damaged"

UPGRADABLE = frozenset({EMPTY, UNFINISHED, OLDER})
MEANINGS = {
    CURRENT: "schema and code agree",
    EMPTY: "the database has no tables yet",
    UNFINISHED: "an upgrade was interrupted",
    OLDER: "the schema is older than the code",
    NEWER: "the schema was made by a newer Roost",
    FOREIGN: "the database belongs to another program",
    DAMAGED: "tables or columns are missing",
}
REMEDIES = {
    NEWER: "install that version here too",
    FOREIGN: "give Roost a database of its own",
    DAMAGED: "bring it back from a backup",
}
UPGRADE_COMMAND = "run: roost db upgrade"


@dataclass(frozen=True)
class SchemaState:
    """How the tables of a database compare with what this version of Roost needs."""

    state: str
    """One of the words in MEANINGS."""
    revision: str | None
    """What the database has; None where it has none."""
    wanted: str
    """What the code needs."""
    missing: tuple[str, ...] = ()
    """Tables and columns that should be there and are not."""

    @property
    def is_current(self) -> bool:
        """Whether a service may start."""
        return self.state == CURRENT

    @property
    def meaning(self) -> str:
        """The state in a sentence."""
        details = f": {', '.join(self.missing[:5])}" if self.missing else ""
        return f"{MEANINGS[self.state]}{details}"

    @property
    def remedy(self) -> str:
        """What to do about it; empty where nothing is to be done."""
        return UPGRADE_COMMAND if self.state in UPGRADABLE else REMEDIES.get(self.state, "")


def check(engine: Engine) -> SchemaState:
    """How the tables compare with the code. Changes nothing."""
    with database_errors(engine), engine.connect() as connection:
        return _state_of(connection)


def ensure_current(engine: Engine) -> None:
    """For a service, before it starts: SchemaError, with what to do, unless schema and code agree."""
    found = check(engine)
    if not found.is_current:
        raise _refusal(found, engine)


def upgrade(engine: Engine) -> tuple[SchemaState, SchemaState]:
    """Bring the tables up to date: the state before and after. One that is up to date is left alone."""
    with (
        database_errors(engine),
        engine.connect() as connection,
        _locked(connection.execution_options(**BEGINS_WRITING)),
    ):
        before = _state_of(connection)
        if before.state not in UPGRADABLE | {CURRENT}:
            raise _refusal(before, engine)
        if not before.is_current:
            _run_revisions(connection)
        connection.commit()
        return before, _state_of(connection)


def _refusal(found: SchemaState, engine: Engine) -> SchemaError:
    versions = f"it has revision {found.revision or 'none'}, this Roost needs {found.wanted}"
    return SchemaError(f"database {show_address(engine.url)}: {found.meaning}; {versions}", found.remedy)


def _scripts() -> ScriptDirectory:
    return ScriptDirectory(str(REVISIONS), version_locations=[str(REVISIONS)])


def _state_of(connection: Connection) -> SchemaState:
    scripts = _scripts()
    wanted = str(scripts.get_current_head())
    present = set(inspect(connection).get_table_names())
    revision = _revision_of(connection) if VERSION_TABLE in present else None
    if revision == wanted:
        missing = _missing(connection, present)
        return SchemaState(DAMAGED if missing else CURRENT, revision, wanted, missing)
    if revision is not None:
        known = {each.revision for each in scripts.walk_revisions()}
        return SchemaState(OLDER if revision in known else NEWER, revision, wanted)
    if VERSION_TABLE in present:
        return SchemaState(UNFINISHED, None, wanted)
    return SchemaState(FOREIGN if present else EMPTY, None, wanted)


def _revision_of(connection: Connection) -> str | None:
    return MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE}).get_current_revision()


def _missing(connection: Connection, present: set[str]) -> tuple[str, ...]:
    """Somebody may have taken something away by hand; to find out at the first request would be too late."""
    gone = [name for name in metadata.tables if name not in present]
    found = inspect(connection).get_multi_columns(filter_names=[name for name in metadata.tables if name in present])
    for (_, name), columns in found.items():
        there = {column["name"] for column in columns}
        gone += [f"{name}.{column.name}" for column in metadata.tables[name].columns if column.name not in there]
    return tuple(sorted(gone))


def _run_revisions(connection: Connection) -> None:
    scripts = _scripts()

    def steps(revision: object, _: object) -> object:
        return scripts._upgrade_revs("head", revision)  # type: ignore[arg-type]

    with EnvironmentContext(Config(), scripts, fn=steps, destination_rev="head") as environment:
        environment.configure(connection=connection, version_table=VERSION_TABLE)
        with environment.begin_transaction():
            environment.run_migrations()


@contextmanager
def _locked(connection: Connection) -> Iterator[None]:
    """One upgrade at a time: on SQLite and PostgreSQL until the transaction ends."""
    if connection.dialect.name == "sqlite":
        connection.begin()
        yield
    elif connection.dialect.name == "postgresql":
        for limit in ("lock_timeout", "statement_timeout"):  # an upgrade takes as long as it takes
            connection.execute(text(f"SET LOCAL {limit} = 0"))
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": UPGRADE_LOCK})
        yield
    else:
        yield from _mariadb_locked(connection)


def _mariadb_locked(connection: Connection) -> Iterator[None]:
    """MariaDB commits at every change of a table, so the lock belongs to the connection; its name is server-wide."""
    try:
        for limit in MARIADB_LIMITS:  # an upgrade takes as long as it takes
            connection.execute(text(f"SET SESSION {limit} = DEFAULT"))
        took = connection.scalar(text(f"SELECT GET_LOCK({MARIADB_LOCK}, :seconds)"), {"seconds": LOCK_SECONDS})
        if took != 1:
            raise SchemaError(
                "another upgrade of this database has not come to its end", "look for it, then try again"
            )
        connection.commit()
        yield
    finally:
        connection.rollback()
        connection.execute(text(f"SELECT RELEASE_LOCK({MARIADB_LOCK})"))
        for limit, seconds in MARIADB_LIMITS.items():
            connection.execute(text(f"SET SESSION {limit} = {seconds}"))
