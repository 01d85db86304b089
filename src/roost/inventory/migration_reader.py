# SPDX-License-Identifier: Apache-2.0
"""Reads what migrations hold of nodes. Schedulers need no migrations, an export does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from sqlalchemy import Connection, select

from roost.hosts import MigrationHolding
from roost.model.resources import MIGRATION, move_of
from roost.store.schema import allocations, consumers, migrations


def read_migrations(connection: Connection, instance_uuids: Iterable[str]) -> dict[int, list[MigrationHolding]]:
    """Node id -> what migrations hold of it; a node without migrations is left out.

    `instance_uuids`: all known instances, by which the instance of a migration is found.
    """
    table = allocations.c
    query = (
        select(table.node_id, table.consumer_uuid, table.resource_class, table.used)
        .join(consumers, consumers.c.uuid == table.consumer_uuid)
        .where(consumers.c.kind == MIGRATION)
    )
    held: dict[tuple[int, str], dict[str, int]] = defaultdict(dict)
    for node_id, uuid, name, used in connection.execute(query):
        held[node_id, uuid][name] = used
    instance_of = _find_instances(connection, instance_uuids) if held else {}
    found: dict[int, list[MigrationHolding]] = defaultdict(list)
    for (node_id, uuid), amounts in held.items():
        found[node_id].append(MigrationHolding(uuid, amounts, instance_of.get(uuid)))
    return dict(found)


def _find_instances(connection: Connection, instance_uuids: Iterable[str]) -> dict[str, str]:
    """Uuid of a migration -> that of its instance."""
    recorded = connection.execute(select(migrations.c.uuid, migrations.c.server_uuid))
    return {row.uuid: row.server_uuid for row in recorded} | {move_of(uuid): uuid for uuid in instance_uuids}
