# SPDX-License-Identifier: Apache-2.0
"""What one probe of `roost cloud check` found: a row of its table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from roost.errors import RoostError

OK, WARNING, MISSING, FAILED, OFF = "ok", "warning", "missing", "failed", "off"
"""Works; works, but look at it; a right or a thing is not there; does not work; not used, or not tried."""
FIRST_NAMES = 5
"""Names that a row lists; any further ones are only counted."""


class ProbeResult(NamedTuple):
    """What was tried, and how it went. No field has a password or a token."""

    where: str
    """Connection or part of the cloud, such as `cell cell1`."""
    what: str
    result: str
    """OK, WARNING, MISSING, FAILED or OFF."""
    details: str = ""
    remedy: str = ""
    """What to do, in one line; empty if nothing is to be done, or if `statement` does it."""
    statement: str = ""
    """SQL that an administrator of this database runs; empty if none helps."""

    @property
    def is_in_the_way(self) -> bool:
        """Whether a scheduler would lack something it needs."""
        return self.result in (MISSING, FAILED)


def failure(where: str, what: str, error: RoostError) -> ProbeResult:
    """The row for something that does not work."""
    return ProbeResult(where, what, FAILED, error.message, error.hint)


def listed(names: Sequence[str]) -> str:
    """The first names, and the number of the others."""
    more = f" and {len(names) - FIRST_NAMES} more" if len(names) > FIRST_NAMES else ""
    return ", ".join(sorted(names)[:FIRST_NAMES]) + more
