# SPDX-License-Identifier: Apache-2.0
"""Baselines for messages_bench: the round trip of the broker alone, and with one durable commit.

Every request gets a recorded reply of a scheduler, over the broker and libraries that the scheduler uses. `echo` does
nothing else. `commit` first inserts one row into a table with one index, by a prepared statement: the least that a
server with durable decisions must do.

python -m benchmarks.echo_server TRANSPORT_URL EXCHANGE DATABASE_URL ANSWER.json
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from roost.messages.open_transport import open_transport
from roost.messages.options import RpcOptions

ECHO, COMMIT = "echo", "commit"
"""Topics on which the baselines listen."""


@dataclass(frozen=True)
class Baseline:
    """An RPC endpoint with the method select_destinations of a scheduler."""

    select_destinations: Callable[..., Any]
    version: str = "4.5"

    @property
    def methods(self) -> Mapping[str, Callable[..., Any]]:
        """Method name -> function."""
        return {"select_destinations": self.select_destinations}


class Rows:
    """A table with one indexed column, and a connection to it."""

    def __init__(self, database: str) -> None:
        self._connection = psycopg.connect(database, autocommit=True)
        self._connection.execute("CREATE TABLE echoes (uuid VARCHAR(36) PRIMARY KEY)")
        self._libpq = self._connection.pgconn
        self._libpq.prepare(b"add", b"INSERT INTO echoes VALUES ($1)")

    def add(self, uuid: str) -> None:
        """Insert a row; returns once it is durable."""
        result = self._libpq.exec_prepared(b"add", [uuid.encode()])
        if result.status != psycopg.pq.ExecStatus.COMMAND_OK:
            raise psycopg.errors.error_from_result(result)


def main(url: str, exchange: str, database: str, answer_file: str) -> None:
    """Serve both topics until SIGTERM; prints `ready` once it does."""
    answer, rows = json.loads(Path(answer_file).read_text()), Rows(database)

    def echo(context: Any, **arguments: Any) -> Any:
        return answer

    def commit(context: Any, instance_uuids: list[str], **arguments: Any) -> Any:
        rows.add(instance_uuids[0])
        return answer

    transport = open_transport(RpcOptions(transport_url=url, control_exchange=exchange))
    servers = [
        transport.serve(topic, "baseline", [Baseline(method)]) for topic, method in ((ECHO, echo), (COMMIT, commit))
    ]
    for server in servers:
        server.start()
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stopped.set())
    print("ready", flush=True)
    stopped.wait()
    for server in servers:
        server.stop()
        server.wait()
    transport.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
