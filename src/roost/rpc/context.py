# SPDX-License-Identifier: Apache-2.0
"""On whose behalf a request is made. It travels with every message."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class RequestContext:
    """Who asks. What the sender said beyond that is kept in `values` and travels on."""

    request_id: str = ""
    user_id: str = ""
    project_id: str = ""
    is_admin: bool = False
    values: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """The whole of it, as received. Not shown: it may hold a token."""
    _afterwards: list[Callable[[], None]] = field(default_factory=list, init=False, compare=False, repr=False)

    @classmethod
    def new(
        cls, request_id: str, user_id: str = "", project_id: str = "", is_admin: bool = False, **more: Any
    ) -> RequestContext:
        """A context of our own making."""
        return cls(request_id, user_id, project_id, is_admin, more)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> RequestContext:
        """As it came in a message, of any release: what is missing or of another kind is empty."""
        return cls(
            request_id=_first_text(values, "request_id"),
            user_id=_first_text(values, "user_id", "user"),
            project_id=_first_text(values, "project_id", "project", "tenant"),
            is_admin=values.get("is_admin") is True,
            values=dict(values),
        )

    def to_dict(self) -> dict[str, Any]:
        """As it goes into a message."""
        own = {"request_id": self.request_id, "user_id": self.user_id, "project_id": self.project_id}
        return {**self.values, **own, "is_admin": self.is_admin}

    def when_answered(self, do: Callable[[], None]) -> None:
        """Have this done once the caller has its answer, and need not wait for it."""
        self._afterwards.append(do)

    def answered(self) -> None:
        """The caller has its answer. Called by whoever took the message, in any case."""
        while self._afterwards:
            try:
                self._afterwards.pop(0)()
            except Exception:
                LOG.exception("%s: what was to be done after the answer failed", self.request_id)


def _first_text(values: Mapping[str, Any], *names: str) -> str:
    found = (values.get(name) for name in names)
    return next((each for each in found if isinstance(each, str) and each), "")
