# SPDX-License-Identifier: Apache-2.0
"""What lies in the database, by hand-written SQL on a connection of its own: nothing of Roost's stands between."""

import threading
import time
from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.pool import NullPool
from tests.soak.clients import PATIENCE_SECONDS, demand

DRIVERS = {"postgresql://": "postgresql+psycopg://"}
SECONDS_BETWEEN_LOOKS = 0.05
PART_OF_LOOKING = 0.2
"""Whoever looks leaves the server to those who race for the rest of the time."""

HELD = """
    SELECT a.consumer_uuid, n.uuid, a.resource_class, a.used
      FROM allocations a JOIN compute_nodes n ON n.id = a.node_id
"""
OVER_LIMIT = """
    SELECT n.host, i.resource_class, SUM(a.used), MAX(i.used), MAX((i.total - i.reserved) * i.allocation_ratio)
      FROM inventories i
      JOIN compute_nodes n ON n.id = i.node_id
      JOIN allocations a ON a.node_id = i.node_id AND a.resource_class = i.resource_class
     GROUP BY n.host, i.resource_class
    HAVING SUM(a.used) > MAX((i.total - i.reserved) * i.allocation_ratio)
        OR MAX(i.used) > MAX((i.total - i.reserved) * i.allocation_ratio)
"""
SHARED_HOSTS = """
    SELECT n.host, COUNT(DISTINCT a.consumer_uuid)
      FROM allocations a JOIN compute_nodes n ON n.id = a.node_id
     GROUP BY n.host HAVING COUNT(DISTINCT a.consumer_uuid) > 1
"""
# The counts that nova's host attributes come from are kept beside the allocations: they must say the same.
WRONG_COUNTS = """
    SELECT n.host, n.vcpus_used, n.memory_mb_used, n.memory_mb - n.free_ram_mb, n.running_vms,
           COALESCE(SUM(CASE WHEN a.resource_class = 'VCPU' THEN a.used END), 0),
           COALESCE(SUM(CASE WHEN a.resource_class = 'MEMORY_MB' THEN a.used END), 0),
           COUNT(DISTINCT a.consumer_uuid)
      FROM compute_nodes n LEFT JOIN allocations a ON a.node_id = n.id
     GROUP BY n.id, n.host, n.vcpus_used, n.memory_mb_used, n.memory_mb, n.free_ram_mb, n.running_vms
    HAVING n.vcpus_used <> COALESCE(SUM(CASE WHEN a.resource_class = 'VCPU' THEN a.used END), 0)
        OR n.memory_mb_used <> COALESCE(SUM(CASE WHEN a.resource_class = 'MEMORY_MB' THEN a.used END), 0)
        OR n.memory_mb - n.free_ram_mb <> COALESCE(SUM(CASE WHEN a.resource_class = 'MEMORY_MB' THEN a.used END), 0)
        OR n.running_vms <> COUNT(DISTINCT a.consumer_uuid)
"""
UNTOLD = """
    SELECT DISTINCT a.consumer_uuid FROM allocations a
     WHERE NOT EXISTS (SELECT 1 FROM changes c WHERE c.subject = 'allocations' AND c.subject_key = {key})
"""
KEYS = {
    "mysql": "CONCAT(a.node_id, '/', a.consumer_uuid)",
    "postgresql": "a.node_id || '/' || a.consumer_uuid",
    "sqlite": "a.node_id || '/' || a.consumer_uuid",
}
OTHERS = {
    "postgresql": """
        SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'roost'
    """,
    "mysql": "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()",
    "sqlite": "SELECT 0",
}

Holding = dict[str, tuple[str, dict[str, int]]]
"""Consumer -> node, and amount per resource class."""


def open_own(address: str) -> Engine:
    """An engine of our own, which keeps no connection."""
    for short, full in DRIVERS.items():
        address = address.replace(short, full)
    return create_engine(address, poolclass=NullPool)


def rows_of(connection: Connection, statement: str) -> list[Any]:
    """All rows, as of this moment."""
    return [tuple(row) for row in connection.execute(text(statement))]


def holdings(connection: Connection) -> Holding:
    """Who holds what; BrokenPromise where somebody holds something of two nodes."""
    found: Holding = {}
    for consumer, node, name, used in rows_of(connection, HELD):
        place, amounts = found.setdefault(str(consumer), (str(node), {}))
        demand(place == str(node), f"{consumer} holds resources of two nodes: {place} and {node}")
        amounts[name] = int(used)
    return found


def wait_until_alone(engine: Engine) -> None:
    """Until the server has noticed that the clients are gone: what a dead one had sent may still be done."""
    give_up = time.monotonic() + PATIENCE_SECONDS
    kind = engine.url.get_backend_name()
    while True:
        with engine.connect() as connection:
            if rows_of(connection, OTHERS[kind])[0][0] == 0:
                return
        demand(time.monotonic() < give_up, "the connections of dead clients stay open")
        time.sleep(0.02)


def check_counts(connection: Connection) -> None:
    """What the nodes say besides their inventories, and what readers were told."""
    wrong = rows_of(connection, WRONG_COUNTS)
    demand(not wrong, f"nodes count what nobody holds (host, said, held): {wrong[:3]}")
    untold = rows_of(connection, UNTOLD.format(key=KEYS[connection.dialect.name]))
    demand(not untold, f"no change was noted for what these hold: {untold[:3]}")


class Watch:
    """Looks at the database again and again in a thread of its own, until the `with` ends."""

    def __init__(self, engine: Engine, look: Callable[[Connection], str]) -> None:
        """`look` says what is wrong, or nothing."""
        self._engine, self._look = engine, look
        self._stop = threading.Event()
        self.looks = 0
        self.wrong = ""
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        with self._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            while not self.wrong:
                is_last, started = self._stop.is_set(), time.monotonic()  # one more look after the end
                try:
                    self.wrong = self._look(connection)
                except Exception as error:
                    self.wrong = f"looking failed: {error}"
                self.looks += 1
                if is_last:
                    return
                took = time.monotonic() - started
                self._stop.wait(max(SECONDS_BETWEEN_LOOKS, took / PART_OF_LOOKING - took))
