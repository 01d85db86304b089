# SPDX-License-Identifier: Apache-2.0
"""Decisions of schedulers, and the tables of hosts that they were made from."""

import sqlalchemy as sa
from alembic import op

from roost.store.columns import LONG_TEXT, NAME, UUID, CompressedJson, JsonText, UtcTime
from roost.store.revisions.r0001_first_schema import TABLE
from roost.store.revisions.r0002_what_fleets_and_consumers_say import add_column

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Each step is left out where an interrupted run has done it. No release before this one wrote decisions."""
    add_column("decisions", sa.Column("run_uuid", UUID, comment="the scheduler that decided, in scheduler_runs"))
    add_column("decisions", sa.Column("number", sa.BigInteger, comment="counts the decisions of that scheduler"))
    add_column(
        "decisions",
        sa.Column("position", sa.BigInteger, comment="in table_changes: the state that was decided from"),
    )
    op.create_index(
        "uq_decisions_run_uuid_number", "decisions", ["run_uuid", "number"], unique=True, if_not_exists=True
    )
    _create_decision_servers()
    _create_states()


def _create_decision_servers() -> None:
    op.create_table(
        "decision_servers",
        sa.Column("server_uuid", UUID, nullable=False),
        sa.Column("run_uuid", UUID, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False, autoincrement=False),
        sa.PrimaryKeyConstraint("server_uuid", "run_uuid", "number", name="pk_decision_servers"),
        **TABLE,
    )
    op.create_index(
        "ix_decision_servers_run_uuid_number", "decision_servers", ["run_uuid", "number"], if_not_exists=True
    )


def _create_states() -> None:
    op.create_table(
        "scheduler_runs",
        sa.Column("uuid", UUID, nullable=False),
        sa.Column("host", NAME, nullable=False),
        sa.Column("options", JsonText, nullable=False, comment="options that decide, without secrets"),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("uuid", name="pk_scheduler_runs"),
        **TABLE,
    )
    op.create_table(
        "table_checkpoints",
        sa.Column("run_uuid", UUID, nullable=False),
        sa.Column("position", sa.BigInteger, nullable=False, autoincrement=False, comment="changes that it includes"),
        sa.Column("part", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("payload", LONG_TEXT, nullable=False, comment="a part of the compressed table of hosts"),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("run_uuid", "position", "part", name="pk_table_checkpoints"),
        **TABLE,
    )
    op.create_table(
        "table_changes",
        sa.Column("run_uuid", UUID, nullable=False),
        sa.Column(
            "first", sa.BigInteger, nullable=False, autoincrement=False, comment="position of the first change"
        ),
        sa.Column("last", sa.BigInteger, nullable=False, comment="position of the last change"),
        sa.Column("payload", CompressedJson, nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("run_uuid", "first", name="pk_table_changes"),
        **TABLE,
    )
    for name in ("table_checkpoints", "table_changes"):
        op.create_index(f"ix_{name}_created_at", name, ["created_at"], if_not_exists=True)
