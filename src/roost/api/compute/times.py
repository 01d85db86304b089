# SPDX-License-Identifier: Apache-2.0
"""Times in answers, in the form that nova gives most of them."""

from __future__ import annotations

from datetime import UTC, datetime


def naive_time(moment: datetime | None) -> str | None:
    """A time in UTC without its zone and with microseconds, as nova writes it; None for None."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f") if moment else None
