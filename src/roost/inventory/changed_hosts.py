# SPDX-License-Identifier: Apache-2.0
"""Changes of hosts by their numbers in the log of changes, for clients that follow the fleet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from sqlalchemy import Connection, select

from roost.store.change_log import GUESTS, NODES, SERVICES, USAGE, ReadPosition, is_unread, split_usage_key
from roost.store.schema import changes, compute_nodes
from roost.store.statements import read_rows

_WHAT = {NODES: "report", USAGE: "use", GUESTS: "use", SERVICES: "service"}


class ChangedHost(NamedTuple):
    """A change of a host, without what changed in it."""

    number: int
    host: str | None
    """None: the change is not one of a host, or the node is gone."""
    node: str | None
    """None: the change is one of the host's service."""
    what: str
    """What changed: `report` (of its agent, or its traits), `use` (of its resources), `service` (its flags)."""


def read_changed_hosts(
    connection: Connection, since: ReadPosition, until: ReadPosition | None = None, limit: int = 500
) -> list[ChangedHost]:
    """The changes that a reader at `since` has not read, by number; those of other things have no host.

    `until`: only those that a reader there has read.
    """
    columns = changes.c.number, changes.c.subject, changes.c.subject_key
    unread = select(*columns).where(is_unread(changes.c.number, since, until))
    rows = connection.execute(unread.order_by(changes.c.number).limit(limit)).all()
    names = _names_of_nodes(connection, rows)
    return [ChangedHost(row.number, *_host_of(row, names), _WHAT.get(row.subject, "")) for row in rows]


def _node_id(row: Any) -> int | None:
    if row.subject == USAGE:
        return split_usage_key(row.subject_key)[0]
    return int(row.subject_key) if row.subject in (NODES, GUESTS) else None


def _names_of_nodes(connection: Connection, rows: Iterable[Any]) -> dict[int, tuple[str, str]]:
    """Row id -> host and node, of the nodes that these changes are about."""
    ids = {found for row in rows if (found := _node_id(row)) is not None}
    wanted = select(compute_nodes.c.id, compute_nodes.c.host, compute_nodes.c.hypervisor_hostname)
    if not ids:
        return {}
    return {number: (host, node) for number, host, node in read_rows(connection, wanted, compute_nodes.c.id, ids)}


def _host_of(row: Any, names: dict[int, tuple[str, str]]) -> tuple[str | None, str | None]:
    if row.subject == SERVICES:
        return row.subject_key, None
    node = _node_id(row)
    return names.get(node, (None, None)) if node is not None else (None, None)
