# SPDX-License-Identifier: Apache-2.0
"""The life cycle of servers: a fencing token, what the running task needs, and faults."""

import sqlalchemy as sa
from alembic import op

from roost.store.columns import LONG_TEXT, NAME, ROW_NUMBER, UUID, JsonText, UtcTime
from roost.store.revisions.r0001_first_schema import TABLE
from roost.store.revisions.r0002_what_fleets_and_consumers_say import add_column

revision = "0004"
down_revision = "0003"

FENCING_TOKEN = "counts the changes of the life cycle: a fencing token"  # noqa: S105 - no secret
TASK_DATA = "what the running task needs: target, alternates, failed attempts"
DETAILS = "for admins: the decision in one line, the reasons of failed attempts"


def upgrade() -> None:
    """Each step is left out where an interrupted run has done it."""
    add_column(
        "servers",
        sa.Column("generation", sa.BigInteger, nullable=False, server_default=sa.text("0"), comment=FENCING_TOKEN),
    )
    add_column("servers", sa.Column("power_state", sa.String(32)))
    add_column("servers", sa.Column("task_data", JsonText, comment=TASK_DATA))
    add_column("servers", sa.Column("launched_at", UtcTime))
    add_column("servers", sa.Column("deleted_at", UtcTime))
    op.create_index("ix_servers_task_state", "servers", ["task_state"], if_not_exists=True)
    op.create_table(
        "server_faults",
        sa.Column("id", ROW_NUMBER, nullable=False),
        sa.Column("server_uuid", UUID, nullable=False),
        sa.Column("code", sa.Integer, nullable=False),
        sa.Column("message", LONG_TEXT, nullable=False),
        sa.Column("details", LONG_TEXT, comment=DETAILS),
        sa.Column("host", NAME),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_server_faults"),
        sa.ForeignKeyConstraint(
            ["server_uuid"], ["servers.uuid"], name="fk_server_faults_server_uuid", ondelete="CASCADE"
        ),
        **TABLE,
    )
    op.create_index("ix_server_faults_server_uuid", "server_faults", ["server_uuid"], if_not_exists=True)
