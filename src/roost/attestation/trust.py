# SPDX-License-Identifier: Apache-2.0
"""The trust level of every node, remembered for as long as nova's TrustedFilter remembers it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from roost.attestation.client import AttestationClient

UNKNOWN = "unknown"
"""The level of a node that nobody vouched for."""


class _CachedLevel(NamedTuple):
    level: str
    validated_at: float
    """Unix time in seconds; minus infinity where the service has not spoken of the node."""


_UNATTESTED = _CachedLevel(UNKNOWN, float("-inf"))


class TrustLevels:
    """What the attestation service last said of each node, and when to ask it again."""

    def __init__(self, client: AttestationClient, timeout_seconds: float, now: Callable[[], float]) -> None:
        """`timeout_seconds`: how long a level is believed after its validation; `now` gives unix time."""
        self._client = client
        self._timeout_seconds = timeout_seconds
        self._now = now
        self._entries: dict[str, _CachedLevel] = {}

    def levels(self, nodes: Sequence[str]) -> dict[str, str]:
        """Node name -> trust level. Name every known node: nodes left out are forgotten at the next poll.

        One entry that is missing or too old makes all of them unknown, and the service is asked once for all.
        """
        entries = self._entries
        oldest = self._now() - self._timeout_seconds
        if any(entries.get(node, _UNATTESTED).validated_at < oldest for node in nodes):
            entries = self._entries = self._ask(list(dict.fromkeys(nodes)))
        return {node: entries[node].level for node in nodes}

    def _ask(self, nodes: list[str]) -> dict[str, _CachedLevel]:
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
