# SPDX-License-Identifier: Apache-2.0
"""Types of values in bodies and queries of the compute API, with nova's bounds and nova's forms of them."""

from __future__ import annotations

from functools import partial
from ipaddress import ip_address
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

LARGEST_NUMBER = 2**31 - 1
"""The largest number that nova takes: a column of MySQL's type INT holds it."""
LONGEST_NAME = 255
ABSENT: Any = None
"""Default of a key that may be left out, but may not be null."""


class Body(BaseModel):
    """A JSON object in which no keys but the declared ones may be."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _no_flag(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError(f"{value} is not of type 'integer'")
    return value


def _printable(text: str) -> str:
    if text != text.strip() or not text.isprintable():
        raise ValueError("is not printable text without blanks at its ends")
    return text


Amount = Annotated[int, BeforeValidator(_no_flag), Field(ge=0, le=LARGEST_NUMBER)]
"""A whole number or its digits as text."""
Positive = Annotated[int, BeforeValidator(_no_flag), Field(ge=1, le=LARGEST_NUMBER)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_NAME), AfterValidator(_printable)]
HostName = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_NAME, pattern=r"^[a-zA-Z0-9_.-]+$")]


def _address(version: int, text: str) -> str:
    try:
        if text and ("%" in text or ip_address(text).version != version):
            raise ValueError
    except ValueError:
        raise ValueError(f"{text[:60]!r} is no IPv{version} address") from None
    return text


Address = Annotated[str, StringConstraints(max_length=64)]
IPv4 = Annotated[Address, AfterValidator(partial(_address, 4)), Field(json_schema_extra={"format": "ipv4"})]
"""An address as text; empty: none, as answers have it."""
IPv6 = Annotated[Address, AfterValidator(partial(_address, 6)), Field(json_schema_extra={"format": "ipv6"})]
GuestName = Annotated[
    str, StringConstraints(min_length=2, max_length=LONGEST_NAME, pattern=r"^[a-zA-Z0-9][a-zA-Z0-9.-]*[a-zA-Z0-9]$")
]
"""The host name of a guest."""
LongText = Annotated[str, StringConstraints(max_length=65_535)]
MetadataKey = Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=r"^[a-zA-Z0-9-_:. ]+$")]
MetadataValue = Annotated[str, StringConstraints(max_length=255)]
