# SPDX-License-Identifier: Apache-2.0
"""Roles, and where a user has them: in a project, or in the system, which is the cloud as a whole."""

from __future__ import annotations

from collections.abc import Iterable

from roost.errors import BadInput, nearest

ADMIN, MEMBER, READER = "admin", "member", "reader"
ROLES = (ADMIN, MEMBER, READER)
"""Each role implies those after it."""
SYSTEM = "system"
"""The target of a role that is in no project; no project may have this name."""
UNSCOPED = ""
"""The target of a token for nothing: it says who its user is, and gives no role. No project has this id or name."""


def with_implied(roles: Iterable[str]) -> frozenset[str]:
    """The roles and all that they imply: a member may do what a reader may. An unknown role implies nothing."""
    given = frozenset(roles)
    highest = min((ROLES.index(each) for each in given if each in ROLES), default=len(ROLES))
    return given | frozenset(ROLES[highest:])


def check_role(role: str) -> None:
    """BadInput for a role that does not exist."""
    if role not in ROLES:
        raise BadInput(f"there is no role {role[:40]!r}", nearest(role, ROLES))
