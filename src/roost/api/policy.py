# SPDX-License-Identifier: Apache-2.0
"""What a caller may do, by rules with nova's names."""

from __future__ import annotations

from collections.abc import Mapping

from roost.errors import Forbidden
from roost.identity import Caller

ADMIN = "admin"


class Policy:
    """Decides by the roles of the caller."""

    def is_admin(self, caller: Caller) -> bool:
        """Whether the caller sees what belongs to others."""
        return ADMIN in caller.roles

    def allows(self, caller: Caller, rule: str, target: Mapping[str, str | None]) -> bool:
        """Whether the rule allows the caller what belongs to `target`."""
        is_own = target.get("project_id") == caller.project_id or target.get("user_id") == caller.user_id
        return self.is_admin(caller) or is_own

    def authorize(self, caller: Caller, rule: str, target: Mapping[str, str | None]) -> None:
        """Raise Forbidden unless the rule allows it."""
        if not self.allows(caller, rule, target):
            raise Forbidden(f"Policy doesn't allow {rule} to be performed.")
