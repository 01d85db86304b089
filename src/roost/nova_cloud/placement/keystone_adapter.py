# SPDX-License-Identifier: Apache-2.0
"""[placement] of nova.conf: how placement is found, and as whom Roost signs in there."""

from __future__ import annotations

from roost.nova_cloud.keystone_section import KeystoneSection

PLACEMENT = KeystoneSection(
    "placement", "placement", ("internal", "public"), "write there what nova-scheduler's nova.conf has"
)
"""With nova's defaults."""
make_adapter, describe_placement = PLACEMENT.make_adapter, PLACEMENT.describe
