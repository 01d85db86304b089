# SPDX-License-Identifier: Apache-2.0
"""[placement] of nova.conf: how placement is found, and as whom Roost signs in there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from keystoneauth1.adapter import Adapter

from roost.nova_cloud.keystone_section import CONNECTIONS, KeystoneSection

PLACEMENT = KeystoneSection(
    "placement", "placement", ("internal", "public"), "write there what nova-scheduler's nova.conf has"
)
"""With nova's defaults."""
describe_placement = PLACEMENT.describe


def make_adapter(files: Sequence[Path], callers: int = 1) -> Adapter:
    """An HTTP session for placement; OptionError where [placement] of these config files is wrong.

    `callers`: threads that may call at the same time, besides those of `PlacementClient.map`.
    """
    return PLACEMENT.make_adapter(files, callers + CONNECTIONS)
