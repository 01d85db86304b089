# SPDX-License-Identifier: Apache-2.0
"""Servers: their life cycle and their records. Start reading at `lifecycle.py`.

| module | what it holds |
| --- | --- |
| `states.py` | the words for states |
| `lifecycle.py` | every legal change of state, as one table |
| `server.py` | a server, its task, faults and migrations |
| `status.py` | what a server is in nova's API |
| `reader.py` | reads the records: one server, or a page |
| `listing.py` | filters, order and paging of lists |
| `store.py` | changes the records |
| `descriptions.py` | servers, hosts, flavors and images as clients see them |
| `guest_removals.py` | guests left behind on hosts, until their agents have removed them |
| `ended_moves.py` | ends a move in the ledger, on the host where its server is |
| `tasks.py` | who goes on with a task, and what becomes of it when a host is down |
"""

from roost.servers.listing import SORT_KEYS, MigrationFilters, ServerFilters
from roost.servers.reader import ENDED, ServerReader, ServerRecords, Use, read_server_records
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
    hostname_of,
)
from roost.servers.status import STATUSES, status_of
from roost.servers.store import ServerStore

__all__ = [
    "BUILD",
    "ENDED",
    "EVACUATION",
    "LIVE_MIGRATION",
    "MIGRATION",
    "REBUILD",
    "RESIZE",
    "SORT_KEYS",
    "STATUSES",
    "UNSHELVE",
    "Attempt",
    "Fault",
    "Migration",
    "MigrationFilters",
    "Server",
    "ServerFilters",
    "ServerReader",
    "ServerRecords",
    "ServerStore",
    "TaskData",
    "Use",
    "hostname_of",
    "read_server_records",
    "status_of",
]
