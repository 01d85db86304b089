# SPDX-License-Identifier: Apache-2.0
"""A database that is down, full or read-only: a clear error, nothing half written, and it goes on by itself after."""

import pytest
from sqlalchemy import event, text
from tests.store.test_ledger import add_node, claim, used

from roost.errors import DatabaseFull, DatabaseReadOnly, DatabaseUnreachable
from roost.ledger import ledger as ledger_module
from roost.ledger import ledger as reading
from roost.ledger import write_back as writing
from roost.ledger.ledger import Ledger
from roost.ledger.operations import ClaimAll
from roost.store.schema_upgrade import upgrade

SERVERS = ("postgresql", "mariadb")
WHO = {"postgresql": "SELECT pg_backend_pid()", "mariadb": "SELECT CONNECTION_ID()"}
END = {"postgresql": "SELECT pg_terminate_backend({})", "mariadb": "KILL {}"}


def prepared(opened, address, **options):
    engine = opened(address, **options)
    upgrade(engine)
    return engine, Ledger(engine, sleep=lambda seconds: None)


def told(caught):
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("kind_of_server", SERVERS)
@pytest.mark.parametrize("step", [reading, writing])
def test_a_connection_that_breaks_in_the_middle_is_made_anew(opened, databases, kind_of_server, step, monkeypatch):
    engine, book = prepared(opened, databases.create(kind_of_server))
    node, broken, real = add_node(engine), [], step.send_batch

    def break_once(connection, requests):
        if not broken:
            broken.append(connection.exec_driver_sql(WHO[kind_of_server]).scalar())
            databases.execute(kind_of_server, END[kind_of_server].format(broken[0]))
        return real(connection, requests)

    monkeypatch.setattr(step, "send_batch", break_once)
    book.claim([claim(node), claim(node)])
    assert broken
    assert used(engine, node)["VCPU"] == 4


def test_postgresql_that_ends_the_connection_between_two_statements_of_a_batch(opened, databases):
    """Sequences are not rolled back: the trigger ends the first who comes, and nobody after."""
    engine, book = prepared(opened, databases.create("postgresql"))
    node = add_node(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE SEQUENCE fuse")
        connection.exec_driver_sql(
            "CREATE FUNCTION burn() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF nextval('fuse') = 1 THEN "
            "PERFORM pg_terminate_backend(pg_backend_pid()); END IF; RETURN NEW; END $$"
        )
        connection.exec_driver_sql(
            "CREATE TRIGGER burn BEFORE INSERT ON allocations FOR EACH ROW EXECUTE FUNCTION burn()"
        )
    book.claim([claim(node)])
    assert used(engine, node)["VCPU"] == 2
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT last_value FROM fuse").scalar() > 1


@pytest.mark.parametrize("kind_of_server", SERVERS)
def test_a_server_that_stays_away_is_an_error_and_the_next_claim_finds_it_back(
    opened, databases, kind_of_server, monkeypatch
):
    engine, book = prepared(opened, databases.create(kind_of_server))
    node = add_node(engine)
    is_away = True

    @event.listens_for(engine, "do_connect")
    def refuse(dialect, record, arguments, settings):
        if is_away:
            settings["port"] = 1

    engine.dispose()
    with pytest.raises(DatabaseUnreachable) as caught:
        book.claim([claim(node)])
    assert "cannot be reached" in told(caught)
    is_away = False
    book.claim([claim(node)])
    assert used(engine, node)["VCPU"] == 2


def test_postgresql_that_is_read_only_for_a_while(opened, databases):
    engine, book = prepared(opened, databases.create("postgresql"))
    node, name = add_node(engine), engine.url.database
    databases.execute("postgresql", f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    engine.dispose()
    with pytest.raises(DatabaseReadOnly) as caught:
        book.claim([claim(node)])
    assert "is read-only" in told(caught)
    databases.execute("postgresql", f"ALTER DATABASE {name} RESET default_transaction_read_only")
    engine.dispose()
    book.claim([claim(node)])
    assert used(engine, node)["VCPU"] == 2


def test_a_claim_waits_for_a_server_that_takes_nothing_for_a_moment(opened, databases):
    engine, _ = prepared(opened, databases.create("postgresql"))
    node, name = add_node(engine), engine.url.database
    databases.execute("postgresql", f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    engine.dispose()
    pauses = []

    def sleep(seconds):
        pauses.append(seconds)
        if len(pauses) == 3:
            databases.execute("postgresql", f"ALTER DATABASE {name} RESET default_transaction_read_only")
            engine.dispose()

    Ledger(engine, sleep=sleep).claim([claim(node)])
    assert (len(pauses), used(engine, node)["VCPU"]) == (3, 2)


def test_mariadb_that_is_read_only_for_a_while(opened, databases):
    """For a user without special rights; root may write all the same."""
    administrator, _ = prepared(opened, databases.create("mariadb"))
    node, name = add_node(administrator), administrator.url.database
    databases.execute(
        "mariadb", "CREATE USER IF NOT EXISTS clerk@localhost", f"GRANT ALL ON {name}.* TO clerk@localhost"
    )
    book = Ledger(opened(databases.server("mariadb").address(name, "clerk")), sleep=lambda seconds: None)
    databases.execute("mariadb", "SET GLOBAL read_only = 1")
    try:
        with pytest.raises(DatabaseReadOnly) as caught:
            book.claim([claim(node)])
    finally:
        databases.execute("mariadb", "SET GLOBAL read_only = 0")
    assert "is read-only" in told(caught)
    book.claim([claim(node)])
    assert used(administrator, node)["VCPU"] == 2


def test_sqlite_that_is_full_for_a_while(opened, databases):
    engine, book = prepared(opened, databases.create("sqlite"), max_pool_size=1, max_overflow=0)
    node = add_node(engine, totals={"VCPU": 10**6, "MEMORY_MB": 10**9})
    with engine.connect() as connection:
        pages = connection.scalar(text("PRAGMA page_count"))
        connection.execute(text(f"PRAGMA max_page_count = {pages}"))
    placed = []
    with pytest.raises(DatabaseFull) as caught:
        claim_until_it_fails(book, node, placed)
    assert "is full" in told(caught)
    assert used(engine, node)["VCPU"] == sum(placed)
    with engine.connect() as connection:
        connection.execute(text("PRAGMA max_page_count = 1000000"))
    book.claim([claim(node, 1)])
    assert used(engine, node)["VCPU"] == sum(placed) + 1


def claim_until_it_fails(book, node, placed):
    while len(placed) < 10_000:
        book.claim([claim(node, 1) for _ in range(20)])
        placed.append(20)


def test_an_error_that_trying_again_cannot_heal_is_told_at_once(current, monkeypatch):
    pauses = []

    def fail(*arguments):
        raise DatabaseFull("full")

    monkeypatch.setattr(ledger_module, "write_unit_of_work", fail)
    node = add_node(current)
    with pytest.raises(DatabaseFull):
        Ledger(current, sleep=pauses.append).claim([claim(node), claim(node)])
    assert pauses == []


def test_one_that_cannot_be_written_harms_no_other(current):
    """As where two threads come at the same moment: both are one transaction."""
    node, book = add_node(current), Ledger(current)
    good, bad = claim(node), claim(node, consumer="much too long for a uuid " * 9)
    outcomes = book._commit_group([ClaimAll((good,)), ClaimAll((bad,)), ClaimAll((claim(node),))])
    if outcomes[1] is None:  # SQLite keeps what it is given
        assert current.dialect.name == "sqlite"
        return
    assert [outcomes[0], outcomes[2]] == [None, None]
    assert isinstance(outcomes[1], Exception)
    assert used(current, node)["VCPU"] == 4
