# SPDX-License-Identifier: Apache-2.0
"""Connections: how they are set up, and what becomes of errors."""

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from tests.store.servers import LIMITED_PASSWORD, LIMITED_USER

from roost.errors import (
    DatabaseConflict,
    DatabaseError,
    DatabaseFull,
    DatabaseReadOnly,
    DatabaseRefused,
    DatabaseUnreachable,
    SchemaError,
)
from roost.store import engine as engines
from roost.store.engine import BEGINS_WRITING
from roost.store.schema_upgrade import check, upgrade
from roost.store.transactions import database_errors
from roost.trial.private_servers import free_port

SERVERS = ("postgresql", "mariadb")
SECRET = "s3cr3t-word"


def told(error):
    """The message, which is one line and never has the password."""
    message = str(error.value)
    assert "\n" not in message
    assert SECRET not in message
    assert LIMITED_PASSWORD not in message
    return message


def failure(engine, kind, *steps):
    """The message with which one of these statements fails."""

    def work(connection):
        for step in steps:
            connection.execute(text(step))

    with pytest.raises(kind) as caught, database_errors(engine), engine.connect() as connection:
        work(connection)
    return str(caught.value)


def scalar(engine, statement):
    with engine.connect() as connection:
        return connection.scalar(text(statement))


# --- settings ----------------------------------------------------------------------------------------


@pytest.fixture
def file(opened, databases):
    """An engine on a new SQLite file."""
    return opened(databases.create("sqlite"))


def test_sqlite_writes_ahead_waits_for_others_and_minds_keys(file):
    assert scalar(file, "PRAGMA journal_mode") == "wal"
    assert scalar(file, "PRAGMA busy_timeout") == engines.BUSY_TIMEOUT_MS
    assert scalar(file, "PRAGMA foreign_keys") == 1
    assert scalar(file, "PRAGMA synchronous") == 2  # FULL


def test_sqlite_may_be_told_not_to_wait_for_the_disk(opened, databases):
    assert scalar(opened(databases.create("sqlite"), sqlite_synchronous=False), "PRAGMA synchronous") == 0


def test_sqlite_readers_read_while_somebody_writes(file):
    upgrade(file)
    with file.connect().execution_options(**BEGINS_WRITING) as writer, file.connect() as reader:
        writer.execute(text("INSERT INTO aggregates (uuid, name) VALUES ('u', 'n')"))
        assert reader.scalar(text("SELECT count(*) FROM aggregates")) == 0


def test_a_second_writer_in_sqlite_is_told_of_the_conflict(file, monkeypatch):
    monkeypatch.setattr(engines, "BUSY_TIMEOUT_MS", 10)
    with file.connect().execution_options(**BEGINS_WRITING) as first:
        first.execute(text("CREATE TABLE a (b INTEGER)"))
        assert "try again" in failure(file.execution_options(**BEGINS_WRITING), DatabaseConflict, "SELECT 1")


def test_a_misspelt_file_is_not_made_into_a_database(opened, tmp_path):
    with pytest.raises(DatabaseUnreachable, match=r"there is no such file .roost db upgrade makes it"):
        opened(f"sqlite:///{tmp_path}/roots.db", may_create=False)
    with pytest.raises(DatabaseUnreachable, match="there is no folder"):
        opened(f"sqlite:///{tmp_path}/nowhere/roost.db")
    assert list(tmp_path.iterdir()) == []


def test_postgresql_ends_a_transaction_that_fell_asleep(opened, databases):
    engine = opened(databases.create("postgresql"))
    assert scalar(engine, "SHOW idle_in_transaction_session_timeout") == "30s"
    assert scalar(engine, "SHOW transaction_isolation") == "read committed"


def test_mariadb_ends_a_transaction_that_fell_asleep_and_cuts_nothing(opened, databases):
    engine = opened(databases.create("mariadb"))
    assert scalar(engine, "SELECT @@idle_transaction_timeout") == 30
    assert scalar(engine, "SELECT @@tx_isolation") == "READ-COMMITTED"
    assert "TRADITIONAL" in scalar(engine, "SELECT @@sql_mode")


def test_mariadb_takes_four_bytes_a_letter_even_where_the_address_says_utf8(opened, databases):
    engine = opened(databases.create("mariadb") + "?charset=utf8")
    assert scalar(engine, "SELECT '🦜'") == "🦜"


# --- connections that are kept -----------------------------------------------------------------------


@pytest.fixture
def kept(opened, databases, monkeypatch):
    """An engine with one connection to PostgreSQL, and how often the server was asked whether it is still there."""
    engine, asked = opened(databases.create("postgresql"), max_pool_size=1, max_overflow=0), []
    real = engine.dialect.do_ping

    def counted(connection):
        asked.append(connection)
        return real(connection)

    monkeypatch.setattr(engine.dialect, "do_ping", counted)
    return engine, asked


def test_a_connection_in_steady_use_is_not_asked_whether_it_is_there(kept):
    engine, asked = kept
    for _ in range(5):
        scalar(engine, "SELECT 1")
    assert asked == []


def test_a_connection_that_was_idle_is_asked(kept, monkeypatch):
    engine, asked = kept
    scalar(engine, "SELECT 1")
    monkeypatch.setattr(engines, "PING_AFTER_SECONDS", 0)
    scalar(engine, "SELECT 1")
    assert len(asked) == 1


def test_a_connection_that_the_server_ended_is_replaced_before_anybody_gets_it(kept, databases):
    engine, asked = kept
    ended = scalar(engine, "SELECT pg_backend_pid()")
    databases.execute("postgresql", f"SELECT pg_terminate_backend({ended}, 5000)")
    assert scalar(engine, "SELECT pg_backend_pid()") != ended
    assert len(asked) == 1


def test_a_connection_that_was_closed_on_our_side_is_replaced_too(kept):
    engine, _ = kept
    with engine.connect() as connection:
        connection.connection.driver_connection.close()
    assert scalar(engine, "SELECT 1") == 1


def test_a_pool_that_is_exhausted_is_an_error_that_names_the_option(opened, address):
    engine = opened(address, max_pool_size=1, max_overflow=0, pool_timeout=0)
    with engine.connect(), pytest.raises(DatabaseUnreachable) as caught, database_errors(engine), engine.connect():
        pass
    assert "max_pool_size" in told(caught)


# --- errors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["postgresql", "mysql+pymysql"])
@pytest.mark.parametrize("host", ["127.0.0.1", "nowhere.invalid"])
def test_a_server_that_is_down_or_unknown(opened, scheme, host):
    engine = opened(f"{scheme}://roost:{SECRET}@{host}:{free_port()}/roost")
    with pytest.raises(DatabaseUnreachable) as caught:
        check(engine)
    assert "cannot be reached" in told(caught)


@pytest.mark.parametrize("server_kind", SERVERS)
def test_a_server_that_goes_away_and_comes_back_is_found_again(opened, databases, server_kind):
    engine = opened(databases.create(server_kind))
    upgrade(engine)
    ask = {"postgresql": "SELECT pg_backend_pid()", "mariadb": "SELECT CONNECTION_ID()"}[server_kind]
    end = {"postgresql": "SELECT pg_terminate_backend({})", "mariadb": "KILL {}"}[server_kind]
    with engine.connect() as connection:
        databases.execute(server_kind, end.format(connection.scalar(text(ask))))
        with pytest.raises(DatabaseUnreachable) as caught, database_errors(engine):
            connection.execute(text("SELECT 1"))
    assert "cannot be reached" in told(caught)
    assert check(engine).is_current


def test_a_wrong_password_for_postgresql(opened, databases):
    databases.execute("postgresql", f"CREATE ROLE {LIMITED_USER} LOGIN PASSWORD '{LIMITED_PASSWORD}'")
    server = databases.server("postgresql")
    with pytest.raises(DatabaseRefused) as caught:
        check(opened(server.address("postgres", f"{LIMITED_USER}:{SECRET}")))
    assert "password authentication failed" in told(caught)
    assert check(opened(server.address("postgres", f"{LIMITED_USER}:{LIMITED_PASSWORD}"))).state == "empty"


def test_a_wrong_password_for_mariadb(opened, databases):
    with pytest.raises(DatabaseRefused) as caught:
        check(opened(databases.server("mariadb").address("mysql", f"root:{SECRET}")))
    assert "Access denied" in told(caught)


@pytest.mark.parametrize("server_kind", SERVERS)
def test_a_database_that_is_not_there(opened, databases, server_kind):
    with pytest.raises(DatabaseRefused) as caught:
        check(opened(databases.server(server_kind).address("nowhere")))
    assert "nowhere" in told(caught)


def test_postgresql_that_is_read_only(opened, databases):
    address = databases.create("postgresql")
    name = address.rpartition("/")[2]
    databases.execute("postgresql", f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    with pytest.raises(DatabaseReadOnly) as caught:
        upgrade(opened(address))
    assert "is read-only" in told(caught)


def test_mariadb_that_is_read_only(opened, databases):
    """For a user without special rights; root may write all the same."""
    address = databases.create("mariadb")
    name = address.rpartition("/")[2]
    databases.execute("mariadb", "CREATE USER limited@localhost", f"GRANT ALL ON {name}.* TO limited@localhost")
    databases.execute("mariadb", "SET GLOBAL read_only = 1")
    try:
        with pytest.raises(DatabaseReadOnly) as caught:
            upgrade(opened(databases.server("mariadb").address(name, "limited")))
    finally:
        databases.execute("mariadb", "SET GLOBAL read_only = 0")
    assert "is read-only" in told(caught)


def test_sqlite_that_is_read_only(file):
    """By a pragma: root may write to any file, whatever its rights."""
    upgrade(file)
    message = failure(file, DatabaseReadOnly, "PRAGMA query_only = ON", "DELETE FROM servers")
    assert "is read-only" in message


def test_sqlite_that_is_full_writes_nothing(file):
    upgrade(file)
    limit = f"PRAGMA max_page_count = {scalar(file, 'PRAGMA page_count')}"
    rows = [f"INSERT INTO images (id, name, properties) VALUES ('{n}', 'x', '{'x' * 100_000}')" for n in range(20)]
    assert "is full" in failure(file, DatabaseFull, limit, *rows)
    assert scalar(file, "SELECT count(*) FROM images") == 0


def test_a_file_that_is_no_database(opened, tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("no database\n" * 100)
    with pytest.raises(SchemaError) as caught:
        check(opened(f"sqlite:///{path}"))
    assert "file is not a database" in told(caught)
    assert path.read_text().startswith("no database")


def test_a_folder_is_no_database(opened, tmp_path):
    with pytest.raises(DatabaseUnreachable):
        check(opened(f"sqlite:///{tmp_path}"))


def test_a_broken_rule_passes_as_it_is(current):
    insert = "INSERT INTO aggregates (uuid, name) VALUES ('same', 'same')"
    failure(current, IntegrityError, insert, insert)


def test_a_wrong_statement_is_a_database_error_without_its_values(current):
    with pytest.raises(DatabaseError) as caught, database_errors(current), current.connect() as connection:
        connection.execute(text("SELECT :value FROM nowhere"), {"value": SECRET})
    assert "nowhere" in told(caught)


@pytest.mark.parametrize("missing", ["SELECT 1 FROM nowhere", "SELECT absent FROM services"])
def test_a_missing_table_or_column_is_a_matter_of_the_schema(current, missing):
    """D35: no restart makes it, so a service with several workers ends."""
    with pytest.raises(SchemaError) as caught, database_errors(current), current.connect() as connection:
        connection.execute(text(missing))
    assert caught.value.is_lasting
    assert "does [database] connection name the right database" in told(caught)


def test_mariadb_waits_for_nothing_for_long_but_an_upgrade(opened, databases):
    engine = opened(databases.create("mariadb"), max_pool_size=1, max_overflow=0)
    for _ in range(2):
        assert scalar(engine, "SELECT @@lock_wait_timeout") == 10
        assert scalar(engine, "SELECT @@max_statement_time") == 30
        upgrade(engine)


def test_a_table_that_somebody_has_locked_in_mariadb_is_a_conflict(opened, databases, monkeypatch):
    monkeypatch.setitem(engines.MARIADB_TIMEOUTS, "lock_wait_timeout", 1)
    engine = opened(databases.create("mariadb"))
    upgrade(engine)
    with engine.connect() as other:
        other.exec_driver_sql("LOCK TABLES aggregates WRITE")
        assert "try again" in failure(engine, DatabaseConflict, "SELECT * FROM aggregates")
        other.exec_driver_sql("UNLOCK TABLES")
