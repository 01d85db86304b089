# SPDX-License-Identifier: Apache-2.0
"""Servers: their life cycle and their records. Start reading at `lifecycle.py`.

| module | what it holds |
| --- | --- |
| `states.py` | the words for states |
| `lifecycle.py` | every legal change of state, as one table |
| `server.py` | a server, its task, faults and migrations |
| `store.py` | reads and changes the records |
| `descriptions.py` | hosts, flavors and images as clients see them |
| `ended_moves.py` | ends a move in the ledger, on the host where its server is |
| `tasks.py` | who goes on with a task, and what becomes of it when a host is down |
"""

from roost.servers.server import (
    BUILD,
    EVACUATION,
    LIVE_MIGRATION,
    MIGRATION,
    REBUILD,
    RESIZE,
    UNSHELVE,
    Attempt,
    Fault,
    Migration,
    Server,
    TaskData,
)
from roost.servers.store import ENDED, ServerRecords, ServerStore, read_server_records

__all__ = [
    "BUILD",
    "ENDED",
    "EVACUATION",
    "LIVE_MIGRATION",
    "MIGRATION",
    "REBUILD",
    "RESIZE",
    "UNSHELVE",
    "Attempt",
    "Fault",
    "Migration",
    "Server",
    "ServerRecords",
    "ServerStore",
    "TaskData",
    "read_server_records",
]
