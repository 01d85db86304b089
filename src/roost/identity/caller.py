# SPDX-License-Identifier: Apache-2.0
"""A caller of the API whose token was accepted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Caller:
    """Who calls, for which project, with which roles there.

    A token is for one project, or for the system: then `is_system` is True and `project_id` empty.
    """

    user_id: str
    user_name: str
    project_id: str
    project_name: str
    roles: frozenset[str]
    is_system: bool = False
