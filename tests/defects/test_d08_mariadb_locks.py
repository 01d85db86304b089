# SPDX-License-Identifier: Apache-2.0
"""D8: on MariaDB a transaction of the ledger locks its own rows only, whatever the optimizer's statistics say.

Another session holds locks on all other rows meanwhile: a statement that scans a table would wait for them.
"""

import uuid
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
from sqlalchemy import create_engine, event, text
from tests.store.servers import MariaDB
from tests.store.test_ledger import add_node, claim

from roost import Fleet
from roost.errors import DatabaseConflict
from roost.hosts import HostRecord
from roost.ledger import ledger as ledger_module
from roost.ledger.claim import StrictGroup
from roost.ledger.ledger import Ledger
from roost.records.fleet_import import import_fleet
from roost.records.reports import delete_node, save_report
from roost.store.engine import open_engine, parse_database_url
from roost.store.options import DatabaseOptions
from roost.store.schema_upgrade import upgrade

FLEETS = {"tiny": 3, "imported": 400}
GROUP = StrictGroup(str(uuid.UUID(int=77)), "anti-affinity", 1, "g")
OTHER_GROUP = StrictGroup(str(uuid.UUID(int=78)), "anti-affinity", 1, "h")
LOCKING = ("UPDATE", "DELETE")
OWN_ROWS = {"const", "eq_ref", "ref", "range"}
"""Ways in which MariaDB finds rows by a key; others scan."""
LOCK_ALL_OF = {
    "compute_nodes": "id = {node}",
    "inventories": "node_id = {node}",
    "allocations": "node_id = {node}",
    "consumers": "uuid IN (SELECT consumer_uuid FROM allocations WHERE node_id = {node})",
    "server_groups": f"uuid = '{OTHER_GROUP.uuid}'",
    "server_group_slots": "host = 'host-000'",
    "server_group_members": f"group_id = (SELECT id FROM server_groups WHERE uuid = '{OTHER_GROUP.uuid}')",
}


@pytest.fixture(scope="module")
def server():
    """A server with both fleets, restarted with statistics from before they were imported."""
    started = MariaDB()
    try:
        for name, hosts in FLEETS.items():
            prepare(started.create_database(name), hosts)
        forget_statistics(started)
        started.restart()
        yield started
    finally:
        started.stop()


def prepare(address, hosts):
    """Hosts, and on the first one instances, one of them in a group."""
    engine = open_engine(DatabaseOptions(connection=address))
    upgrade(engine)
    size = {"vcpus_total": 64, "total_usable_ram_mb": 2**20, "total_usable_disk_gb": 2**20}
    entries = [{"host": f"host-{number:03d}", **size} for number in range(hosts)]
    import_fleet(engine, Fleet.load({"hosts": entries}, keeps_records=True), datetime.now(UTC))
    first = nodes_of(engine)[0]
    Ledger(engine).claim([claim(first, group=OTHER_GROUP)])
    Ledger(engine).claim([claim(first) for _ in range(3)])
    engine.dispose()


def forget_statistics(server):
    """As if tables had been measured while they were empty, and not since."""
    engine = create_engine(parse_database_url(server.address("mysql")), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text("SET GLOBAL innodb_stats_auto_recalc = 0"))
        connection.execute(
            text("UPDATE innodb_table_stats SET n_rows = 0, clustered_index_size = 1, sum_of_other_index_sizes = 1")
        )
        connection.execute(text("UPDATE innodb_index_stats SET stat_value = 0 WHERE stat_name LIKE 'n_diff%'"))
    engine.dispose()


def nodes_of(engine):
    """Uuids of all nodes, by host."""
    with engine.connect() as connection:
        return list(connection.scalars(text("SELECT uuid FROM compute_nodes ORDER BY host")))


@pytest.fixture(params=FLEETS)
def engine(server, request):
    """Of one of the fleets; a wait for a lock fails after a second, and the ledger does not retry."""
    opened = open_engine(DatabaseOptions(connection=server.address(request.param)))

    @event.listens_for(opened, "connect")
    def connected(connection, _):
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION innodb_lock_wait_timeout = 1")

    yield opened
    opened.dispose()


@pytest.fixture
def scans(engine):
    """Locking statements that scan a table, each with the table."""
    found = []

    @event.listens_for(engine, "before_cursor_execute")
    def explain(connection, cursor, statement, parameters, context, executemany):
        if statement.lstrip().startswith(LOCKING) or "FOR UPDATE" in statement:
            with connection.connection.cursor() as own:
                own.execute(f"EXPLAIN {statement}", parameters[0] if executemany else parameters)
                found.extend((row[2], statement) for row in own.fetchall() if is_scan(row, statement))

    return found


def is_scan(row, statement):
    """Whether a row of EXPLAIN scans a table that the statement locks: neither JSON_TABLE nor a subquery."""
    table, way, is_outer = row[2], row[3], row[1] in ("PRIMARY", "SIMPLE")
    return is_outer and table not in ("given", None) and not table.startswith("<") and way not in OWN_ROWS


@contextmanager
def all_of_the_first_node_locked(engine):
    """Locked in a session of its own; statements on the engine that fail are raised as they are."""
    waits = []

    @event.listens_for(engine, "handle_error")
    def failed(context):
        waits.append(context.statement)

    own = create_engine(engine.url, isolation_level="READ COMMITTED")
    with own.connect() as connection:
        node = connection.scalar(text("SELECT id FROM compute_nodes WHERE host = 'host-000'"))
        for table, rows in LOCK_ALL_OF.items():
            lock = f"SELECT * FROM {table} WHERE {rows.format(node=node)} FOR UPDATE"
            assert connection.execute(text(lock)).all(), table
        try:
            yield
        finally:
            assert waits == []
    own.dispose()


def fail(seconds):
    raise AssertionError("a conflict: the transaction waited for rows that are not its own")


def test_d8_a_transaction_of_the_ledger_waits_for_no_row_of_another_node(engine, scans):
    _, second, third, *_ = nodes_of(engine)
    ledger = Ledger(engine, sleep=fail)
    with all_of_the_first_node_locked(engine):
        one, two, three = claim(second), [claim(second), claim(third)], claim(second, group=GROUP)
        ledger.claim([one])
        ledger.claim(two)
        ledger.claim([one])  # a repeat, by the long read
        ledger.claim([three])
        for end in (ledger.finish_move, lambda migration: ledger.undo_move(migration, three.consumer_uuid)):
            migration = str(uuid.uuid4())
            target = third if end == ledger.finish_move else second
            ledger.start_move(migration, claim(target, consumer=three.consumer_uuid, group=GROUP))
            assert end(migration)
        assert ledger.release([each.consumer_uuid for each in (one, *two, three)]) == 4
    assert scans == []


def test_d8_releases_of_many_consumers_lock_their_own_rows(engine, scans):
    """Two hundred keys in a statement cost more than a scan of a small table, by the optimizer's reckoning."""
    _, second, third, *_ = nodes_of(engine)
    ledger = Ledger(engine, sleep=fail)
    with all_of_the_first_node_locked(engine):
        claims = [claim(node, vcpus=1) for node in (second, third) for _ in range(100)]
        ledger.claim(claims)
        assert ledger.release([each.consumer_uuid for each in claims]) == 200
    assert scans == []


def test_d8_reports_and_deletions_of_a_node_lock_their_own_rows(engine, scans):
    with all_of_the_first_node_locked(engine):
        for vcpus, extra in ((8, {"CUSTOM_GOLD": 4}), (16, {})):
            record = HostRecord("new", vcpus_total=vcpus, traits=frozenset(extra))
            save_report(engine, record, datetime.now(UTC))
        delete_node(engine, "new")
    assert scans == []


@pytest.mark.parametrize("end", ["release", "finish_move", "undo_move", "claim"])
def test_d8_conflicts_are_retried_for_about_30_seconds(opened, databases, monkeypatch, end):
    """Twenty conflicts in a row, as deadlocks on a busy database; there were 12 attempts once."""
    engine = opened(databases.create("sqlite"))
    upgrade(engine)
    source, target = add_node(engine), add_node(engine)
    pauses, conflicts, migration = [], iter([DatabaseConflict("deadlock")] * 20), str(uuid.uuid4())
    ledger, moved, real = Ledger(engine, sleep=pauses.append), claim(source), ledger_module.write_unit_of_work
    ledger.claim([moved])
    ledger.start_move(migration, claim(target, consumer=moved.consumer_uuid))

    def write(connection, work, now):
        real(connection, work, now)
        for conflict in conflicts:
            raise conflict

    monkeypatch.setattr(ledger_module, "write_unit_of_work", write)
    assert {
        "release": lambda: ledger.release([moved.consumer_uuid]) == 1,
        "finish_move": lambda: ledger.finish_move(migration),
        "undo_move": lambda: ledger.undo_move(migration, moved.consumer_uuid),
        "claim": lambda: ledger.claim([claim(source), claim(target)]) is None,
    }[end]()
    assert len(pauses) == 20
    assert sum(pauses) + (ledger_module.MOST_CONFLICTS - 20) * pauses[-1] == pytest.approx(27, abs=8)
