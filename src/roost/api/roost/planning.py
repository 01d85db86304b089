# SPDX-License-Identifier: Apache-2.0
"""Dry runs by the handlers of the changes themselves: what they would ask of conductors is planned, and not made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from roost.api.call import Call
from roost.api.roost.decisions import NO_VALID_HOST
from roost.client.interface import CloudClient
from roost.errors import RemoteNoValidHost
from roost.messages.context import RequestContext


class _Planner:
    """A client whose changes are dry runs; it keeps what they would do."""

    def __init__(self, client: CloudClient, steps: list[dict[str, Any]]) -> None:
        self._client, self._steps = client, steps

    def __getattr__(self, method: str) -> Callable[..., dict[str, Any]]:
        def plan(*args: Any, **kwargs: Any) -> dict[str, Any]:
            answer: dict[str, Any] = getattr(self._client, method)(*args, **kwargs, dry_run=True)
            self._steps.extend(answer["plan"])
            return answer

        return plan


def planned_by(call: Call, change: Callable[[Call], Any]) -> dict[str, Any]:
    """What a change would do: {"fits": bool, "plan": steps}; where no host fits, a summary says why.

    `change` does it with a call whose client plans only; it checks rights and input as it always does.
    """
    steps: list[dict[str, Any]] = []

    def client_for(context: RequestContext) -> CloudClient:
        return cast(CloudClient, _Planner(call.parts.client_for(context), steps))

    try:
        change(replace(call, parts=replace(call.parts, client_for=client_for)))
    except RemoteNoValidHost as error:
        return {"fits": False, "plan": [], "summary": str(error) if call.is_admin else NO_VALID_HOST}
    return {"fits": True, "plan": steps if call.is_admin else [_without_host(each) for each in steps]}


def _without_host(step: dict[str, Any]) -> dict[str, Any]:
    """A step as members see it. Handlers ask for some with the rights of an operator, whom conductors tell all."""
    return step | {"host": None, "summary": ""}
