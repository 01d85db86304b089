# SPDX-License-Identifier: Apache-2.0
"""Hosts by name: the row of one, and the nearest name to one that does not exist."""

from __future__ import annotations

from itertools import islice

from roost.errors import MOST_COMPARED, UnknownName, nearest
from roost.hosts import HostTable


def find_row(table: HostTable, host: str, node: str | None = None) -> int:
    """The row of a host; upper and lower case are not distinguished, as by the scheduler.

    `node`: for a host with several. UnknownName for a host or node that the table does not have.
    """
    rows = sorted(table.rows_of_hosts_ignoring_case([host]))
    if not rows:
        raise UnknownName(f"unknown host {host!r}", nearest_host(table, host))
    by_node = {table.names[row][1]: row for row in rows}
    if node is None and len(rows) > 1:
        raise UnknownName(f"host {host} has {len(rows)} nodes", f"name one of them: {', '.join(list(by_node)[:8])}")
    if node is not None and node not in by_node:
        raise UnknownName(f"host {host} has no node {node!r}", nearest(node, by_node))
    return rows[0] if node is None else by_node[node]


def nearest_host(table: HostTable, name: str) -> str:
    """A hint that names the host whose name is closest; only names of about the same length are compared."""
    alike = (host for host, _ in table.names if abs(len(host) - len(name)) < 3)
    return nearest(name, set(islice(alike, MOST_COMPARED)))
