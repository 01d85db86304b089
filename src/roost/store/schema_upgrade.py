# SPDX-License-Identifier: Apache-2.0
"""Creates and upgrades the tables, and checks whether they match the code.

Revisions are numbered modules in `revisions/`; the table `roost_version` has the number of the current one. alembic
runs them, without env.py or an ini file, so an installed wheel is enough.
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
from roost.store.engine import BEGINS_WRITING, MARIADB_TIMEOUTS, redacted_url
from roost.store.schema import metadata
from roost.store.transactions import database_errors

REVISIONS = Path(__file__).with_name("revisions")
VERSION_TABLE = "roost_version"
UPGRADE_LOCK = 7_263_741
"""Key of PostgreSQL's advisory lock that serialises upgrades."""
MARIADB_LOCK = "CONCAT('roost.', MD5(DATABASE()))"
"""SQL for the name of MariaDB's lock that serialises upgrades; names are server-wide."""
UPGRADE_LOCK_SECONDS = 600
"""How long an upgrade of MariaDB waits for another one."""

CURRENT = "current"
EMPTY = "empty"
UNFINISHED = "unfinished"
OLDER = "older"
NEWER = "newer"
FOREIGN = "foreign"
DAMAGED = "damaged"

UPGRADABLE = frozenset({EMPTY, UNFINISHED, OLDER})
STATE_MEANINGS = {
    CURRENT: "schema and code agree",
    EMPTY: "the database has no tables yet",
    UNFINISHED: "an upgrade was interrupted",
    OLDER: "the schema is older than the code",
    NEWER: "the schema was made by a newer Roost",
    FOREIGN: "the database belongs to another program",
    DAMAGED: "tables or columns are missing",
}
STATE_REMEDIES = {
    NEWER: "install that version here too",
    FOREIGN: "give Roost a database of its own",
    DAMAGED: "bring it back from a backup",
}
UPGRADE_COMMAND = "run: roost db upgrade"


@dataclass(frozen=True)
class SchemaState:
    """Result of comparing the tables of a database with the schema that this version of Roost needs."""

    state: str
    """A key of STATE_MEANINGS."""
    revision: str | None
    """The revision of the database; None if it has none."""
    wanted: str
    """The revision that the code needs."""
    missing: tuple[str, ...] = ()
    """Tables and columns that the database lacks although its revision is current."""

    @property
    def is_current(self) -> bool:
        """Whether a service may start."""
        return self.state == CURRENT

    @property
    def meaning(self) -> str:
        """The state as a sentence, with up to five missing tables or columns."""
        details = f": {', '.join(self.missing[:5])}" if self.missing else ""
        return f"{STATE_MEANINGS[self.state]}{details}"

    @property
    def remedy(self) -> str:
        """What the operator should do; empty if the schema is current."""
        return UPGRADE_COMMAND if self.state in UPGRADABLE else STATE_REMEDIES.get(self.state, "")


def check(engine: Engine) -> SchemaState:
    """Compare the tables with the schema of the code; changes nothing."""
    with database_errors(engine), engine.connect() as connection:
        return _state_of(connection)


def ensure_current(engine: Engine) -> None:
    """Raise SchemaError, with a remedy, unless the schema is current. Services call it before they start."""
    found = check(engine)
    if not found.is_current:
        raise _schema_error(found, engine)


def upgrade(engine: Engine) -> tuple[SchemaState, SchemaState]:
    """Create or upgrade the tables: the states before and after. A current schema is left unchanged.

    SchemaError for a database that is newer, damaged, or belongs to another program.
    """
    with (
        database_errors(engine),
        engine.connect() as connection,
        _locked(connection.execution_options(**BEGINS_WRITING)),
    ):
        before = _state_of(connection)
        if before.state not in UPGRADABLE | {CURRENT}:
            raise _schema_error(before, engine)
        if not before.is_current:
            _run_revisions(connection)
        connection.commit()
        return before, _state_of(connection)


def _schema_error(found: SchemaState, engine: Engine) -> SchemaError:
    versions = f"it has revision {found.revision or 'none'}, this Roost needs {found.wanted}"
    return SchemaError(f"database {redacted_url(engine.url)}: {found.meaning}; {versions}", found.remedy)


def _scripts() -> ScriptDirectory:
    return ScriptDirectory(str(REVISIONS), version_locations=[str(REVISIONS)])


def _state_of(connection: Connection) -> SchemaState:
    scripts = _scripts()
    wanted = str(scripts.get_current_head())
    present = set(inspect(connection).get_table_names())
    revision = _revision_of(connection) if VERSION_TABLE in present else None
    if revision == wanted:
        missing = _find_missing(connection, present)
        return SchemaState(DAMAGED if missing else CURRENT, revision, wanted, missing)
    if revision is not None:
        known = {each.revision for each in scripts.walk_revisions()}
        return SchemaState(OLDER if revision in known else NEWER, revision, wanted)
    if VERSION_TABLE in present:
        return SchemaState(UNFINISHED, None, wanted)
    return SchemaState(FOREIGN if present else EMPTY, None, wanted)


def _revision_of(connection: Connection) -> str | None:
    return MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE}).get_current_revision()


def _find_missing(connection: Connection, present: set[str]) -> tuple[str, ...]:
    """Tables, and columns as TABLE.COLUMN, that the schema has and the database lacks; sorted.

    Found before the service starts rather than by the first request that needs them.
    """
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
    """Hold the lock that serialises upgrades; on SQLite and PostgreSQL until the transaction ends."""
    if connection.dialect.name == "sqlite":
        connection.begin()
        yield
    elif connection.dialect.name == "postgresql":
        for timeout in ("lock_timeout", "statement_timeout"):  # an upgrade may take longer
            connection.execute(text(f"SET LOCAL {timeout} = 0"))
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": UPGRADE_LOCK})
        yield
    else:
        yield from _mariadb_locked(connection)


def _mariadb_locked(connection: Connection) -> Iterator[None]:
    """Hold a lock of the connection: MariaDB commits at every change of a table, so a transaction cannot hold it."""
    try:
        for timeout in MARIADB_TIMEOUTS:  # an upgrade may take longer
            connection.execute(text(f"SET SESSION {timeout} = DEFAULT"))
        get_lock = text(f"SELECT GET_LOCK({MARIADB_LOCK}, :seconds)")
        if connection.scalar(get_lock, {"seconds": UPGRADE_LOCK_SECONDS}) != 1:
            raise SchemaError(
                "another upgrade of this database has not come to its end", "look for it, then try again"
            )
        connection.commit()
        yield
    finally:
        connection.rollback()
        connection.execute(text(f"SELECT RELEASE_LOCK({MARIADB_LOCK})"))
        for timeout, seconds in MARIADB_TIMEOUTS.items():
            connection.execute(text(f"SET SESSION {timeout} = {seconds}"))
