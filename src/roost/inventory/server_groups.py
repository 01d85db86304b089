# SPDX-License-Identifier: Apache-2.0
"""Server groups in the tables."""

from __future__ import annotations

from sqlalchemy import Engine, select

from roost.model import ServerGroup
from roost.store.error_mapping import database_errors
from roost.store.schema import server_group_members, server_groups


def read_group(engine: Engine, uuid: str) -> ServerGroup | None:
    """The group with this uuid and its members, without their hosts; None where there is none."""
    with database_errors(engine), engine.connect() as connection:
        row = connection.execute(select(server_groups).where(server_groups.c.uuid == uuid)).one_or_none()
        if row is None:
            return None
        listed = select(server_group_members.c.server_uuid).where(server_group_members.c.group_id == row.id)
        members = tuple(sorted(connection.scalars(listed)))
    rules = {} if row.max_server_per_host is None else {"max_server_per_host": row.max_server_per_host}
    return ServerGroup(row.policy, row.name, row.uuid, members, rules=rules)
