# SPDX-License-Identifier: Apache-2.0
"""Times in answers, in the forms that nova, Glance and Keystone give them, and times that clients write."""

from __future__ import annotations

from datetime import UTC, datetime

from roost.errors import BadInput


def utc_text(moment: datetime | None) -> str | None:
    """A time in UTC to the second, such as 2026-11-19T04:45:00Z; None for None."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if moment else None


def naive_time(moment: datetime | None) -> str | None:
    """A time in UTC without its zone and with microseconds, as nova writes most of them; None for None."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f") if moment else None


def keystone_time(moment: datetime | None) -> str | None:
    """A time in UTC with microseconds, such as 2026-11-19T04:45:00.000000Z, as Keystone writes it; None for None."""
    return f"{naive_time(moment)}Z" if moment else None


def parse_time(text: str, where: str) -> datetime:
    """The time that a client wrote in ISO 8601, in UTC where it has no zone. BadInput, which names `where`."""
    try:
        found = datetime.fromisoformat(text)
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        hint = "write it as 2026-11-19T04:45:00Z"
        raise BadInput(f"{where}: {text[:60]!r} is no time", hint) from None
