# SPDX-License-Identifier: Apache-2.0
"""Types of values in queries of the lists of servers and migrations, as clients send them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from roost.api.compute.body_types import LARGEST_NUMBER

TRUE_WORDS, FALSE_WORDS = ("1", "t", "true", "on", "y", "yes"), ("0", "f", "false", "off", "n", "no")


def _parse_flag(value: Any) -> bool:
    text = str(value).strip().lower()
    if text not in ("", *TRUE_WORDS, *FALSE_WORDS):
        raise ValueError(f"{text[:40]!r} is neither true nor false")
    return text not in FALSE_WORDS


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except OverflowError:
        raise ValueError("the time is out of range") from None


Limit = Annotated[int, Field(ge=0, le=LARGEST_NUMBER)]
QueryFlag = Annotated[bool, BeforeValidator(_parse_flag)]
"""True, too, where a client gives the key alone."""
QueryTime = Annotated[datetime, AfterValidator(_in_utc)]
"""ISO 8601; without a zone in UTC."""
