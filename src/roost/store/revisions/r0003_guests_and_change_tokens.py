# SPDX-License-Identifier: Apache-2.0
"""What guests hold of a node beside resource classes, and a token per change that tells a restored database.

The token is NOT NULL and has no default: a scheduler of an older version that is still running cannot write any more,
because it would give out devices and CPUs without recording them.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

from roost.store.columns import ROW_NUMBER, UUID, JsonText
from roost.store.revisions.r0001_first_schema import TABLE
from roost.store.revisions.r0002_what_fleets_and_consumers_say import add_column

revision = "0003"
down_revision = "0002"

BASE_NUMA = "numa_topology without what guest_allocations hold"
BASE_PCI = "pci_stats without what guest_allocations hold"
GUEST = "NUMA cells with pinned CPUs and pages, and PCI devices"
RANDOM = "random per transaction; a restored database has others"


def upgrade() -> None:
    """Each step is left out where an interrupted run has done it."""
    add_column("compute_nodes", sa.Column("base_numa_topology", JsonText, comment=BASE_NUMA))
    add_column("compute_nodes", sa.Column("base_pci_stats", JsonText, comment=BASE_PCI))
    op.execute(
        "UPDATE compute_nodes SET base_numa_topology = numa_topology, base_pci_stats = pci_stats"
        " WHERE base_numa_topology IS NULL AND base_pci_stats IS NULL"
    )
    _create_guest_allocations()
    _add_token()


def _create_guest_allocations() -> None:
    op.create_table(
        "guest_allocations",
        sa.Column("consumer_uuid", UUID, nullable=False),
        sa.Column("node_id", ROW_NUMBER, nullable=False),
        sa.Column("guest", JsonText, nullable=False, comment=GUEST),
        sa.PrimaryKeyConstraint("consumer_uuid", "node_id", name="pk_guest_allocations"),
        sa.ForeignKeyConstraint(["consumer_uuid"], ["consumers.uuid"], name="fk_guest_allocations_consumer_uuid"),
        sa.ForeignKeyConstraint(["node_id"], ["compute_nodes.id"], name="fk_guest_allocations_node_id"),
        **TABLE,
    )
    op.create_index("ix_guest_allocations_node_id", "guest_allocations", ["node_id"], if_not_exists=True)


def _add_token() -> None:
    """Nullable at first: rows that are there get 0."""
    add_column("changes", sa.Column("token", sa.BigInteger, comment=RANDOM))
    op.execute("UPDATE changes SET token = 0 WHERE token IS NULL")
    settings: dict[str, Any] = {"recreate": "auto", "table_kwargs": {"sqlite_autoincrement": True}}
    with op.batch_alter_table("changes", **settings) as batch:
        batch.alter_column("token", existing_type=sa.BigInteger, nullable=False, existing_comment=RANDOM)
