# SPDX-License-Identifier: Apache-2.0
"""Availability zones: metadata of aggregates, and the default zone of hosts that are in none."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from sqlalchemy import Connection, Engine, exists, select

from roost.inventory.services import AGENT
from roost.store.schema import aggregate_hosts, aggregate_metadata, services
from roost.store.statements import read_rows
from roost.store.transactions import database_errors

ZONE_KEY = "availability_zone"
"""Key of the metadata with which an aggregate names a zone."""
_IN_SERVICE = (services.c.binary == AGENT) & ~services.c.disabled
_IS_ZONE = (aggregate_metadata.c.aggregate_id == aggregate_hosts.c.aggregate_id) & (
    aggregate_metadata.c.key == ZONE_KEY
)
_ZONES_OF_HOSTS = (
    select(aggregate_hosts.c.host, aggregate_hosts.c.aggregate_id, aggregate_metadata.c.value)
    .select_from(aggregate_hosts)
    .join(aggregate_metadata, _IS_ZONE)
)


def read_zones_of_hosts(connection: Connection, hosts: Collection[str] | None = None) -> dict[str, list[str]]:
    """Host -> the zones that its aggregates name, by id of the aggregate, of these hosts or of all.

    The first one counts; a host without one is left out, and is in the default zone.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for row in sorted(read_rows(connection, _ZONES_OF_HOSTS, aggregate_hosts.c.host, hosts)):
        found[row.host].append(row.value)
    return dict(found)


def read_zones(engine: Engine, default_zone: str) -> set[str]:
    """Zones with at least one enabled host; `default_zone` is that of hosts whose aggregates name none."""
    named = (
        select(aggregate_metadata.c.value)
        .join(aggregate_hosts, _IS_ZONE)
        .join(services, services.c.host == aggregate_hosts.c.host)
        .where(_IN_SERVICE)
        .distinct()
    )
    is_in_zone = exists().where(aggregate_hosts.c.host == services.c.host).where(_IS_ZONE)
    others = select(services.c.id).where(_IN_SERVICE, ~is_in_zone).limit(1)
    with database_errors(engine), engine.connect() as connection:
        zones = set(connection.scalars(named))
        return zones | ({default_zone} if connection.scalar(others) is not None else set())
