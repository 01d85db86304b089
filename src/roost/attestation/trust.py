# SPDX-License-Identifier: Apache-2.0
"""Cache of trust levels, with the expiry rule of nova's TrustedFilter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from roost.attestation.client import AttestationClient

UNKNOWN = "unknown"
"""The level of a node that the attestation service has not attested."""


class _CachedLevel(NamedTuple):
    level: str
    validated_at: float
    """Unix time in seconds; minus infinity where the service did not name the node."""


_UNATTESTED = _CachedLevel(UNKNOWN, float("-inf"))


class TrustLevels:
    """Cache of the last trust level of each node; polls the attestation service when it is stale."""

    def __init__(self, client: AttestationClient, timeout_seconds: float, now: Callable[[], float]) -> None:
        """`timeout_seconds`: how long a level is valid after its validation; `now` returns unix time in seconds."""
        self._client = client
        self._timeout_seconds = timeout_seconds
        self._now = now
        self._entries: dict[str, _CachedLevel] = {}

    def levels(self, nodes: Sequence[str]) -> dict[str, str]:
        """Node name -> trust level. `nodes` has to name every known node: others are dropped at the next poll.

        One entry that is missing or stale invalidates the cache, and the service is polled for all nodes.
        """
        entries = self._entries
        oldest = self._now() - self._timeout_seconds
        if any(entries.get(node, _UNATTESTED).validated_at < oldest for node in nodes):
            entries = self._entries = self._poll(list(dict.fromkeys(nodes)))
        return {node: entries[node].level for node in nodes}

    def _poll(self, nodes: list[str]) -> dict[str, _CachedLevel]:
        answer = self._client.poll(nodes) or {}
        return {node: self._entry_of(*answer[node]) if node in answer else _UNATTESTED for node in nodes}

    def _entry_of(self, level: str, vtime: str) -> _CachedLevel:
        validated_at = parse_time(vtime)
        return _CachedLevel(UNKNOWN, self._now()) if validated_at is None else _CachedLevel(level, validated_at)


def parse_time(text: str) -> float | None:
    """Unix time of an ISO-8601 time or of a date in the locale's own form, UTC unless it names a zone.

    None if it is neither.
    """
    for parse in (datetime.fromisoformat, _parse_locale_date):
        try:
            moment = parse(text.strip())
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            continue
    return None


def _parse_locale_date(text: str) -> datetime:
    return datetime.strptime(text, "%c")
