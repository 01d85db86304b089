# SPDX-License-Identifier: Apache-2.0
"""The records of servers, as far as a scheduler writes them: in which state they are, and that they are on their way.

Who made the server keeps its record. One that is not there, because it was deleted or because another database has
it, is passed over with a line in the log.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from datetime import datetime

from sqlalchemy import Engine, select, update

from roost.store.bulk import rows_where
from roost.store.change_log import SERVERS, Change, note_changes
from roost.store.error_mapping import database_errors
from roost.store.schema import servers
from roost.store.transactions import writing

LOG = logging.getLogger(__name__)


def find_known_servers(engine: Engine, uuids: Collection[str]) -> set[str]:
    """Those of them that have a record here."""
    with database_errors(engine), engine.connect() as connection:
        return {row.uuid for row in rows_where(connection, select(servers.c.uuid), servers.c.uuid, uuids)}


def save_server_state(
    engine: Engine,
    uuid: str,
    vm_state: str | None,
    task_state: str | None,
    now: datetime,
    *,
    only_from_task: str | None = None,
) -> bool:
    """The server is in this state now; False where it has no record.

    `only_from_task`: False as well, and no change, where it is at something else by now.
    """
    wanted = servers.c.uuid == uuid
    if only_from_task is not None:
        wanted &= servers.c.task_state == only_from_task
    values = {"vm_state": vm_state, "task_state": task_state, "updated_at": now}
    with writing(engine) as connection:
        is_saved = bool(connection.execute(update(servers).where(wanted).values(values)).rowcount)
    if not is_saved:
        problem = "it has no record" if only_from_task is None else f"it has no record, or is not {only_from_task}"
        LOG.warning("server %s: its state %s is not saved: %s", uuid, vm_state, problem)
    return is_saved


def save_server_scheduled(engine: Engine, uuid: str, now: datetime) -> bool:
    """A host was chosen and the server is not there yet, so it is nowhere; False where it has no record."""
    with writing(engine) as connection:
        place = select(servers.c.host).where(servers.c.uuid == uuid).with_for_update()
        found = connection.execute(place).first()
        if found is None:
            LOG.info("server %s: nobody noted that it was scheduled: it has no record", uuid)
            return False
        values = {"host": None, "node": None, "updated_at": now}
        connection.execute(update(servers).where(servers.c.uuid == uuid).values(values))
        note_changes(connection, [Change(SERVERS, uuid)] if found.host is not None else [])
    return True
