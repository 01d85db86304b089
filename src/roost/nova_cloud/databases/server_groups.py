# SPDX-License-Identifier: Apache-2.0
"""Reads server groups from nova's API database."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Connection, select

from roost.model import ServerGroup
from roost.model.fields import MAPPING
from roost.model.group import MAX_SERVER
from roost.nova_cloud.databases.json_columns import decode_column
from roost.nova_cloud.databases.tables import instance_group_member, instance_group_policy, instance_groups
from roost.records.node_rows import JsonCache
from roost.store.statements import MOST_KEYS, in_chunks

_GROUPS = (
    select(
        instance_groups.c.id,
        instance_groups.c.uuid,
        instance_groups.c.name,
        instance_group_policy.c.policy,
        instance_group_policy.c.rules,
    )
    .join_from(
        instance_groups,
        instance_group_policy,
        instance_group_policy.c.group_id == instance_groups.c.id,
        isouter=True,
    )
    .order_by(instance_groups.c.id, instance_group_policy.c.id.desc())
)
_MEMBERS = select(instance_group_member.c.group_id, instance_group_member.c.instance_uuid).order_by(
    instance_group_member.c.id
)


def select_all_groups(connection: Connection) -> list[ServerGroup]:
    """All groups, ordered by id, with their members; FieldError as in `select_groups`."""
    uuids = list(connection.scalars(select(instance_groups.c.uuid).order_by(instance_groups.c.id)))
    found = select_groups(connection, uuids)
    return [found[uuid] for uuid in uuids if uuid in found]


def select_groups(connection: Connection, uuids: Collection[str]) -> dict[str, ServerGroup]:
    """Server group uuid -> group, for those that exist. FieldError for a policy or rule that nova does not have.

    Members come in the order in which they joined; on which hosts they are, the API database does not know.
    """
    rows = [
        row
        for some in in_chunks(uuids, MOST_KEYS)
        for row in connection.execute(_GROUPS.where(instance_groups.c.uuid.in_(some)))
    ]
    members: dict[int, list[str]] = defaultdict(list)
    for some in in_chunks((row.id for row in rows), MOST_KEYS):
        for number, uuid in connection.execute(_MEMBERS.where(instance_group_member.c.group_id.in_(some))):
            members[number].append(uuid)
    return {row.uuid: _group(row, tuple(members[row.id])) for row in rows}


def _group(row: Any, members: tuple[str, ...]) -> ServerGroup:
    rules = decode_column(row, "rules", _known_rules, JsonCache()) or {}
    return ServerGroup(row.policy, row.name or "", row.uuid, members, rules=rules)


def _known_rules(value: Any) -> Mapping[str, Any]:
    return {name: rule for name, rule in MAPPING.strict(value, "rules").items() if name == MAX_SERVER}
