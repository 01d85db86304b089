# SPDX-License-Identifier: Apache-2.0
"""Servers of a source that only knows which instances run where: their names and states stay unknown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from roost.hosts import HostRecord
from roost.hosts.record import Pair
from roost.servers.descriptions import describe_flavor, time_text


def servers_of_instances(hosts: Iterable[tuple[HostRecord, Iterable[Pair]]]) -> Iterator[dict[str, Any]]:
    """A server for each instance. `hosts`: records, each with the (host, node) pairs that it stands for."""
    for record, pairs in hosts:
        for host, node in pairs:
            for each in record.instances:
                yield {
                    "id": each.uuid,
                    "name": None,
                    "status": "UNKNOWN",
                    "host": host,
                    "node": node,
                    "project_id": each.project_id,
                    "flavor": describe_flavor(each.flavor) if each.flavor else None,
                    "created_at": time_text(each.created_at),
                }
