# SPDX-License-Identifier: Apache-2.0
"""Retry data in filter_properties: attempts so far, the hosts tried, and the last failure.

Without retry data a failed build is not retried on another host.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from roost.errors import RoostError
from roost.model.kinds import OfType

_MAPPING = OfType((Mapping,), "is no mapping")
_WHOLE_NUMBER = OfType((int,), "is no whole number")

Properties = Mapping[str, Any]


class MaxRetriesExceeded(RoostError):
    """An instance was tried on max_attempts hosts."""

    code = "roost.max_retries_exceeded"


class Failure(NamedTuple):
    """The failure on the host that was tried last."""

    host: str
    node: str
    reason: str


def populate_retry(
    properties: Properties, max_attempts: int, instance_uuid: str, *, stays_with_any_force: bool = False
) -> dict[str, Any]:
    """The properties with the attempt counter incremented; MaxRetriesExceeded beyond max_attempts.

    With max_attempts = 1, or a forced host, there is no retry, and the properties are returned unchanged.
    `stays_with_any_force`: several forced hosts count as forced, too, as before Liberty.
    """
    if max_attempts == 1 or _is_forced(properties, stays_with_any_force):
        return dict(properties)
    retry = _retry_of(properties)
    attempts = _attempts_of(retry) + 1
    if attempts > max_attempts:
        reason = retry.get("exc_reason")
        raise MaxRetriesExceeded(
            f"Exceeded max scheduling attempts {max_attempts} for instance {instance_uuid}. Last exception: {reason}"
        )
    # The failure has been logged (`last_failure`); the next host does not need it.
    kept = {name: value for name, value in retry.items() if name not in ("exc", "exc_reason")}
    return {**properties, "retry": {**kept, "num_attempts": attempts, "hosts": list(retry.get("hosts") or ())}}


def populate_filter_properties(
    properties: Properties,
    host: str,
    node: str | None,
    limits: Mapping[str, Any] | None,
    *,
    stays_with_any_force: bool = False,
) -> dict[str, Any]:
    """The properties that are sent to the chosen host: with it in the list of tried hosts, and its limits."""
    changed = dict(properties)
    retry = properties.get("retry")
    if retry and not (stays_with_any_force and _is_forced(properties, by_any=True)):
        changed["retry"] = {**retry, "hosts": [*(retry.get("hosts") or ()), [host, node]]}
    if not properties.get("force_hosts"):
        changed["limits"] = dict(limits or {})
    return changed


def with_no_host_tried(properties: Properties) -> dict[str, Any]:
    """The properties for another instance of the request, with an empty list of tried hosts."""
    retry = properties.get("retry")
    return {**properties, "retry": {**retry, "hosts": []}} if retry else dict(properties)


def tried_hosts(properties: Properties) -> list[tuple[str, str]]:
    """(host, node) pairs that were tried; an empty node where the message names none."""
    pairs = _retry_of(properties).get("hosts") or ()
    return [(str(pair[0]), str(pair[1] or "")) for pair in pairs if isinstance(pair, list | tuple) and len(pair) == 2]


def last_failure(properties: Properties) -> Failure | None:
    """The last failure; None where the properties have none."""
    reason, hosts = _retry_of(properties).get("exc_reason"), tried_hosts(properties)
    if not (_retry_of(properties).get("exc") or reason):
        return None
    return Failure(*(hosts[-1] if hosts else ("", "")), str(reason or ""))


def _retry_of(properties: Properties) -> Mapping[str, Any]:
    retry: Mapping[str, Any] = _MAPPING.strict(properties.get("retry") or {}, "filter_properties.retry")
    return retry


def _attempts_of(retry: Mapping[str, Any]) -> int:
    return int(_WHOLE_NUMBER.strict(retry.get("num_attempts", 0), "filter_properties.retry.num_attempts"))


def _is_forced(properties: Properties, by_any: bool) -> bool:
    forced = (properties.get("force_hosts") or (), properties.get("force_nodes") or ())
    return any(each if by_any else len(each) == 1 for each in forced)
