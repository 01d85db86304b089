# SPDX-License-Identifier: Apache-2.0
"""Two floors: what the broker takes by itself, and what it takes with one commit that waits for the disk.

Both answer every request with an answer as long as a scheduler's, over the same broker and the same libraries. `echo`
does nothing else. `commit` first puts one row into a table with one index, by a prepared statement: nobody who
remembers what was decided, whatever happens, can do with less.

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

from roost.rpc import RpcOptions, open_transport

ECHO, COMMIT = "echo", "commit"
"""Topics."""


@dataclass(frozen=True)
class Floor:
    """Takes what a scheduler takes."""

    select_destinations: Callable[..., Any]
    version: str = "4.5"

    @property
    def methods(self) -> Mapping[str, Callable[..., Any]]:
        """One."""
        return {"select_destinations": self.select_destinations}


class Rows:
    """A table of its own, and one connection to it."""

    def __init__(self, database: str) -> None:
        self._connection = psycopg.connect(database, autocommit=True)
        self._connection.execute("CREATE TABLE echoes (uuid VARCHAR(36) PRIMARY KEY)")
        self._libpq = self._connection.pgconn
        self._libpq.prepare(b"add", b"INSERT INTO echoes VALUES ($1)")

    def add(self, uuid: str) -> None:
        """Come back when it is on the disk."""
        result = self._libpq.exec_prepared(b"add", [uuid.encode()])
        if result.status != psycopg.pq.ExecStatus.COMMAND_OK:
            raise psycopg.errors.error_from_result(result)


def main(url: str, exchange: str, database: str, answer_file: str) -> None:
    """Until it is told to stop."""
    answer, rows = json.loads(Path(answer_file).read_text()), Rows(database)

    def echo(context: Any, **arguments: Any) -> Any:
        return answer

    def commit(context: Any, instance_uuids: list[str], **arguments: Any) -> Any:
        rows.add(instance_uuids[0])
        return answer

    transport = open_transport(RpcOptions(transport_url=url, control_exchange=exchange))
    servers = [transport.serve(topic, "floor", [Floor(method)]) for topic, method in ((ECHO, echo), (COMMIT, commit))]
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
