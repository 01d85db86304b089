# SPDX-License-Identifier: Apache-2.0
"""When the database took no heartbeats, so that no host counts as down for its silence meanwhile."""

import sqlalchemy as sa
from alembic import op

from roost.store.columns import UtcTime
from roost.store.revisions.r0001_first_schema import TABLE

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """One table; without a row the clock alone decides, as before."""
    op.create_table(
        "heartbeat_probes",
        sa.Column("id", sa.BigInteger, nullable=False, autoincrement=False, comment="1: there is one row"),
        sa.Column("probed_at", UtcTime, nullable=False, comment="when it last took a write"),
        sa.Column("stopped_at", UtcTime, comment="the last probe before the last outage"),
        sa.Column("resumed_at", UtcTime, comment="the first probe after it"),
        sa.PrimaryKeyConstraint("id", name="pk_heartbeat_probes"),
        **TABLE,
    )
