# SPDX-License-Identifier: Apache-2.0
"""Room for what a fleet file says of a node and nova has no column for, and for what rules ask about instances."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from roost.store.columns import JsonText

revision = "0002"
down_revision = "0001"

SAID_OF_NODES = "what a fleet file says and nova has no column for"
SAID_OF_INSTANCES = "flavor and image of an instance, as far as rules ask"


def upgrade() -> None:
    """Each step is left out where an interrupted run has done it."""
    add_column("compute_nodes", sa.Column("attributes", JsonText, comment=SAID_OF_NODES))
    add_column("consumers", sa.Column("details", JsonText, comment=SAID_OF_INSTANCES))
    op.create_index("ix_services_last_seen_up", "services", ["last_seen_up"], if_not_exists=True)


def add_column(table: str, column: sa.Column[Any]) -> None:
    """SQLite has no way to say "unless it is there"."""
    there = {each["name"] for each in sa.inspect(op.get_bind()).get_columns(table)}
    if column.name not in there:
        op.add_column(table, column)
