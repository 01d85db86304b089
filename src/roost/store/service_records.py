# SPDX-License-Identifier: Apache-2.0
"""The records of services that run: one per host and kind, with the time they were last heard of.

The agents of compute hosts have more to say (roost.inventory.services); this is what all services share.
"""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta

from sqlalchemy import Engine, insert, or_, select, update

from roost.errors import DatabaseConflict
from roost.store.error_mapping import database_errors
from roost.store.schema import services
from roost.store.transactions import writing

_NAMESPACE = uuid.UUID("e2a1f0b8-6a57-5c39-b7a0-3d2d6b0d9f42")


def save_sign_of_life(engine: Engine, host: str, binary: str, topic: str, now: datetime) -> None:
    """A service is alive. Its record is made with the first sign."""
    seen = {"last_seen_up": now, "report_count": services.c.report_count + 1}
    own = (services.c.host == host) & (services.c.binary == binary)
    with writing(engine) as connection:
        if connection.execute(update(services).where(own).values(seen)).rowcount:
            return
    fresh = {"host": host, "binary": binary, "topic": topic, "uuid": str(uuid.uuid5(_NAMESPACE, f"{binary} {host}"))}
    try:
        with writing(engine) as connection:
            connection.execute(insert(services).values(**fresh, last_seen_up=now, created_at=now, report_count=1))
    except DatabaseConflict:  # another process of the same service was a moment faster
        return


def read_hosts_up(engine: Engine, topic: str, now: datetime, down_after_seconds: float) -> list[str]:
    """Hosts, by name, with a service of this topic that is not disabled and was heard of lately."""
    margin = timedelta(seconds=down_after_seconds)
    is_heard = services.c.last_seen_up.between(now - margin, now + margin)
    wanted = (
        select(services.c.host)
        .where(services.c.topic == topic, ~services.c.disabled, ~services.c.forced_down)
        .where(or_(services.c.is_static, is_heard))
        .order_by(services.c.host)
    )
    with database_errors(engine), engine.connect() as connection:
        return list(connection.scalars(wanted))
