# SPDX-License-Identifier: Apache-2.0
"""Options of the older methods."""

from __future__ import annotations

from dataclasses import dataclass

from roost.options import option


@dataclass(frozen=True)
class LiveMigrationOptions:
    """How long a destination is looked for."""

    migrate_max_retries: int = option(
        -1,
        min=-1,
        group="DEFAULT",
        help="hosts to try for a live migration after the first that cannot take it; -1: as many as there are",
    )
