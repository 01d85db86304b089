# SPDX-License-Identifier: Apache-2.0
"""A caller of the API whose token was accepted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Caller:
    """Who calls, for which project, with which roles there.

    A token is for one project, for the system, or unscoped, without any role. `project_id` is empty for the latter
    two, and `is_system` tells them apart.
    """

    user_id: str
    user_name: str
    project_id: str
    project_name: str
    roles: frozenset[str]
    is_system: bool = False

    @property
    def is_unscoped(self) -> bool:
        """Whether the token is for nothing: it says who calls, and is exchanged for one of a project."""
        return not self.project_id and not self.is_system
