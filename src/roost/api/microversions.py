# SPDX-License-Identifier: Apache-2.0
"""Microversions of the compute API: what a request asks for, and what each answer says.

Also times in answers, in the forms that nova, Glance and Keystone give them, and times that clients write.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple, Self

from roost.errors import BadInput, RoostError

STANDARD_HEADER, LEGACY_HEADER = "openstack-api-version", "x-openstack-nova-api-version"
SERVICE = "compute"
_FORM = re.compile(r"([1-9]\d{0,3})\.(0|[1-9]\d{0,3})", re.ASCII)


class Microversion(NamedTuple):
    """A version of the compute API; versions are ordered."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The version that a text such as 2.88 names; BadInput for any other text."""
        found = _FORM.fullmatch(text)
        if found is None:
            raise BadInput(
                f"API Version String {text[:40]!r} is of invalid format. Must be of format MajorNum.MinorNum."
            )
        return cls(int(found[1]), int(found[2]))


def v(minor: int) -> Microversion:
    """Version 2.`minor`."""
    return Microversion(2, minor)


OLDEST, NEWEST = v(1), v(100)


class VersionNotOffered(RoostError):
    """A version that is older or newer than all that are offered."""

    code = "roost.api.version"

    def __init__(self, wanted: Microversion) -> None:
        super().__init__(
            f"Version {wanted} is not supported by the API. Minimum is {OLDEST} and maximum is {NEWEST}."
        )


def requested_version(headers: Mapping[str, str]) -> Microversion:
    """The version that a request asks for, 2.1 where it asks for none. BadInput or VersionNotOffered otherwise.

    `headers`: by lower-case name. The standard header may list several services, separated by commas.
    """
    text = _version_of_compute(headers.get(STANDARD_HEADER, "")) or headers.get(LEGACY_HEADER, "").strip()
    if not text:
        return OLDEST
    if text == "latest":
        return NEWEST
    wanted = Microversion.parse(text)
    if not OLDEST <= wanted <= NEWEST:
        raise VersionNotOffered(wanted)
    return wanted


def _version_of_compute(header: str) -> str:
    for entry in header.split(","):
        service, _, version = entry.strip().partition(" ")
        if service.lower() == SERVICE:
            return version.strip() or "none"
    return ""


def version_headers(version: Microversion) -> dict[str, str]:
    """The headers of an answer of this version."""
    return {
        "OpenStack-API-Version": f"{SERVICE} {version}",
        "X-OpenStack-Nova-API-Version": str(version),
        "Vary": "OpenStack-API-Version, X-OpenStack-Nova-API-Version",
    }


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
