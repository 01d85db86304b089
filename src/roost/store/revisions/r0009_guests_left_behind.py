# SPDX-License-Identifier: Apache-2.0
"""Guests that servers have left behind, until agents have removed them; and indices to find old records by."""

import sqlalchemy as sa
from alembic import op

from roost.store.columns import NAME, UUID, UtcTime
from roost.store.revisions.r0001_first_schema import TABLE

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """One table; what was left behind before is found by the comparison of hypervisors with the records."""
    op.create_table(
        "guest_removals",
        sa.Column("server_uuid", UUID, nullable=False),
        sa.Column("host", NAME, nullable=False),
        sa.Column("generation", sa.BigInteger, nullable=False, comment="of the server when it left the host"),
        sa.Column("attempts", sa.Integer, nullable=False, comment="how often its agent was told again"),
        sa.Column("send_after", UtcTime, nullable=False, comment="when its agent is told again"),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("server_uuid", "host", name="pk_guest_removals"),
        sa.ForeignKeyConstraint(
            ["server_uuid"], ["servers.uuid"], name="fk_guest_removals_server_uuid", ondelete="CASCADE"
        ),
        **TABLE,
    )
    op.create_index("ix_guest_removals_host", "guest_removals", ["host"], if_not_exists=True)
    op.create_index("ix_guest_removals_send_after", "guest_removals", ["send_after"], if_not_exists=True)
    op.create_index("ix_migrations_updated_at", "migrations", ["updated_at"], if_not_exists=True)
    op.create_index("ix_server_faults_created_at", "server_faults", ["created_at"], if_not_exists=True)
