# SPDX-License-Identifier: Apache-2.0
"""What clients note of a server: the host name of its guest, addresses to reach it, and who partitions its disk."""

import sqlalchemy as sa

from roost.store.columns import NAME
from roost.store.revisions.r0002_what_fleets_and_consumers_say import add_column

revision = "0008"
down_revision = "0007"

_LAUNCH_INDEX = "which of the servers of its request, counted from 0"
_ADDRESS = "an address that a client noted, in its shortest form"


def upgrade() -> None:
    """Each step is left out where an interrupted run has done it."""
    add_column("servers", sa.Column("launch_index", sa.Integer, comment=_LAUNCH_INDEX))
    add_column("servers", sa.Column("hostname", NAME, comment="by which a guest is to know itself"))
    add_column("servers", sa.Column("access_ip_v4", sa.String(15), comment=_ADDRESS))
    add_column("servers", sa.Column("access_ip_v6", sa.String(39)))
    add_column("servers", sa.Column("disk_config", sa.String(8), comment="AUTO or MANUAL; NULL: nothing was said"))
