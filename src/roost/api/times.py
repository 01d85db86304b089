# SPDX-License-Identifier: Apache-2.0
"""Times as clients of the compute and image API read them."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_text(moment: datetime | None) -> str | None:
    """A time in UTC to the second, such as 2026-11-19T04:45:00Z; None for None."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if moment else None
