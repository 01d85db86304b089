# SPDX-License-Identifier: Apache-2.0
"""Times in answers, in the forms that nova, Glance and Keystone give them."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_text(moment: datetime | None) -> str | None:
    """A time in UTC to the second, such as 2026-11-19T04:45:00Z; None for None."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if moment else None


def naive_time(moment: datetime | None) -> str | None:
    """A time in UTC without its zone and with microseconds, as nova writes most of them; None for None."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f") if moment else None


def keystone_time(moment: datetime | None) -> str | None:
    """A time in UTC with microseconds, such as 2026-11-19T04:45:00.000000Z, as Keystone writes it; None for None."""
    return f"{naive_time(moment)}Z" if moment else None
