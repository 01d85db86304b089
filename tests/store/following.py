# SPDX-License-Identifier: Apache-2.0
"""Writers that import, report, claim, release and change their minds, while a host manager follows them.

`python -m tests.store.following --seconds 30 --writers 4` is a long run on a private PostgreSQL. At the end the table
must be the one that a full read gives.
"""

import argparse
import random
import sys
import threading
import time
import traceback
from collections import Counter
from datetime import UTC, datetime

from sqlalchemy import select
from sqlalchemy.exc import DBAPIError
from tests.store.comparing import assert_same_table
from tests.store.servers import MariaDB, PostgreSQL
from tests.store.writers import SMALL, Writer, writing

from roost.errors import DatabaseError
from roost.records.fleet_import import import_fleet
from roost.scheduler.options import SchedulerOptions
from roost.scheduler.own_replica import make_host_manager
from roost.sources.fleet_file import Fleet
from roost.store.change_log import record_changes
from roost.store.engine import BEGINS_WRITING, open_engine
from roost.store.options import DatabaseOptions
from roost.store.schema.fleet import aggregates, allocations, compute_nodes
from roost.store.schema_upgrade import upgrade

HOSTS = 24
STEPS = {"claim": 10, "release": 6, "report": 4, "make_or_drop": 3, "aggregate": 2, "service": 2, "bring_in": 0.3}


class Undone(Exception):
    """A transaction that is rolled back on purpose."""


class Restless:
    """One writer: a random transaction after the other, committed late, or not at all."""

    def __init__(self, engine, seed, tally):
        self.engine, self.seed, self.dice, self.tally = engine, seed, random.Random(seed), tally
        self.made = 0

    def run(self, until):
        while time.monotonic() < until:
            (step,) = self.dice.choices(list(STEPS), list(STEPS.values()))
            try:
                getattr(self, step)()
                self.tally[step] += 1
            except Undone:
                self.tally["rolled back"] += 1
            except (DBAPIError, DatabaseError):  # somebody was faster
                self.tally["got in each other's way"] += 1

    def transact(self, change):
        """What others see of it comes a little after it has its numbers; some of it never."""
        with self.engine.connect().execution_options(**BEGINS_WRITING) as connection, connection.begin():
            writer = Writer(connection)
            change(writer)
            record_changes(connection, list(dict.fromkeys(writer.changes)))
            if self.dice.random() < 0.5:
                time.sleep(self.dice.random() * 0.01)
            if self.dice.random() < 0.15:
                raise Undone

    def some_node(self, writer):
        return self.dice.choice(list(writer.connection.scalars(select(compute_nodes.c.id))))

    def new_name(self):
        self.made += 1
        return f"w{self.seed}-{self.made}"

    def claim(self):
        def change(writer):
            writer.instance(self.some_node(writer), self.new_name(), details={"flavor_id": self.dice.randrange(3)})

        self.transact(change)

    def release(self):
        def change(writer):
            wanted = select(allocations.c.node_id, allocations.c.consumer_uuid)
            found = writer.connection.execute(wanted.where(allocations.c.resource_class == "VCPU")).all()
            if found:
                writer.let_go(*self.dice.choice(found), SMALL)

        self.transact(change)

    def report(self):
        def change(writer):
            stats = {"number": self.dice.randrange(9)}
            writer.report(self.some_node(writer), current_workload=self.dice.randrange(9), stats=stats)

        self.transact(change)

    def make_or_drop(self):
        def change(writer):
            if self.dice.random() < 0.6:
                writer.host(self.new_name())
            else:
                node_id = self.some_node(writer)
                writer.lock(node_id)
                writer.drop_node(node_id)

        self.transact(change)

    def aggregate(self):
        def change(writer):
            found = list(writer.connection.scalars(select(aggregates.c.id)))
            if not found or self.dice.random() < 0.3:
                writer.aggregate(self.new_name(), [f"h{self.dice.randrange(HOSTS):02}"])
            elif self.dice.random() < 0.3:
                writer.drop_aggregate(self.dice.choice(found))
            else:
                writer.describe(self.dice.choice(found), "ssd", str(self.dice.random()))

        self.transact(change)

    def service(self):
        self.transact(lambda writer: writer.change_service(self.some_host(), disabled=self.dice.random() < 0.5))

    def some_host(self):
        return f"h{self.dice.randrange(HOSTS):02}"

    def bring_in(self):
        hosts = [{"host": f"imported{number}", "vcpus_total": self.dice.randint(1, 9)} for number in range(3)]
        import_fleet(self.engine, Fleet.load({"hosts": hosts}, keeps_records=True), datetime.now(UTC))


def follow(engine, seconds, writers, seed=1):
    """Let them write for so long; what happened, counted. The table is compared with a full read at the end."""
    tally = Counter()
    with writing(engine) as writer:
        for number in range(HOSTS):
            writer.host(f"h{number:02}")
    manager = make_host_manager(engine, SchedulerOptions(), lambda: datetime.now(UTC), time.monotonic)
    manager.load()
    until = time.monotonic() + seconds
    restless = [Restless(engine, seed + number, tally) for number in range(writers)]
    threads = [threading.Thread(target=each.run, args=[until]) for each in restless]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        found = manager.refresh()
        tally["refreshes"] += 1
        tally["rows refreshed"] += found.changed + found.added + found.removed
    manager.refresh()
    fresh = make_host_manager(engine, SchedulerOptions(), lambda: datetime.now(UTC), time.monotonic)
    fresh.load()
    assert_same_table(manager.table, fresh.table)
    return tally


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m tests.store.following", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--database", choices=["postgresql", "mariadb"], default="postgresql")
    chosen = parser.parse_args(arguments)
    server = {"postgresql": PostgreSQL, "mariadb": MariaDB}[chosen.database]()
    try:
        engine = open_engine(DatabaseOptions(connection=server.create_database("following")))
        upgrade(engine)
        tally = follow(engine, chosen.seconds, chosen.writers, chosen.seed)
        engine.dispose()
    except AssertionError:
        traceback.print_exc()
        return 1
    finally:
        server.stop()
    print(f"{chosen.seconds:g} s, {chosen.writers} writers: the table is what a full read gives; {dict(tally)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
