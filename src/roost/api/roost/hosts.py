# SPDX-License-Identifier: Apache-2.0
"""The hosts with what is free on each, as schedulers see them, and a snapshot of the whole cloud as one file."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query, Response
from sqlalchemy import Connection

from roost.api.call import Call, CurrentCall, answer
from roost.errors import UnknownName
from roost.hosts import HostRecord
from roost.hosts.record import describe_host
from roost.model.resources import DISK_GB, MEMORY_MB, VCPU
from roost.records.fleet_export import take_snapshot
from roost.records.hypervisors import list_node_ids
from roost.records.node_reader import read_nodes
from roost.records.outages import read_heartbeat_rule
from roost.records.services import read_last_heartbeats
from roost.services.options import HeartbeatOptions
from roost.sources.snapshot import Snapshot, deciding_options
from roost.store.pages import Page
from roost.store.transactions import database_errors

FREE = {"vcpus_free": VCPU, "memory_mb_free": MEMORY_MB, "disk_gb_free": DISK_GB}
Record = dict[str, Any]


def list_hosts(
    call: CurrentCall,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    marker: Annotated[str | None, Query(min_length=1, max_length=64, description="id of the last one seen")] = None,
) -> Response:
    """A page of the hosts, by name; one with several nodes has an entry for each."""
    limit = min(limit, call.parts.options.max_limit)
    found = _read(call, Page(limit, marker))
    links = {}
    if len(found) == limit:
        address = call.link(f"/roost/v1/hosts?limit={limit}&marker={found[-1]['id']}")
        links = {"hosts_links": [{"rel": "next", "href": address}]}
    return answer({"hosts": found} | links)


def show(call: CurrentCall, host: Annotated[str, Path(min_length=1, max_length=255)]) -> Response:
    """One host, by its first node."""
    found = _read(call, Page(1), host)
    if not found:
        raise UnknownName(f"Compute host {host[:60]} could not be found.")
    return answer(found[0])


def _read(call: Call, page: Page, host: str | None = None) -> list[Record]:
    engine = call.parts.engine
    with database_errors(engine), engine.connect() as connection:
        ids = list_node_ids(connection, page, host)
        return _records(call, connection, ids) if ids else []


def _records(call: Call, connection: Connection, ids: list[int]) -> list[Record]:
    """The nodes with these row ids, in their order; those without a service are left out."""
    settings = call.parts.settings
    down_after = settings.fill(HeartbeatOptions).seconds_until_down
    zone = settings.value("DEFAULT", "default_availability_zone")
    rule = read_heartbeat_rule(connection, call.parts.servers.times, down_after)
    nodes = {each.id: each.record for each in read_nodes(connection, ids, rule=rule)}
    hosts = {each.host for each in nodes.values()}
    seen = {each.host: each.seen_at for each in read_last_heartbeats(connection, hosts)}
    return [
        {
            "id": record.uuid,
            **describe_host(record, seconds_until_down=down_after, default_zone=zone, seen_at=seen.get(record.host)),
            **_free_amounts(record),
        }
        for record in (nodes[each] for each in ids if each in nodes)
    ]


def _free_amounts(record: HostRecord) -> Record:
    """What servers can still get of each amount: allocation ratios and reservations count."""
    used, space = record.allocated, record.inventories
    left = {key: int(space[name].limit) - used[name] for key, name in FREE.items()}
    return {key: max(0, amount) for key, amount in left.items()}


MEDIA = "application/gzip"


def save(call: CurrentCall) -> Response:
    """All that is known of the cloud at this moment: the content of a file for `roost ... --from FILE`."""
    with call.parts.fleet_work.share():
        content = snapshot_for(call).to_bytes()
    return Response(
        content, media_type=MEDIA, headers={"Content-Disposition": 'attachment; filename="snapshot.roost"'}
    )


def snapshot_for(call: Call) -> Snapshot:
    """The cloud as it is now."""
    parts = call.parts
    return take_snapshot(parts.engine, parts.servers.times, deciding_options(parts.settings))
