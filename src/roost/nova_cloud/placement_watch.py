# SPDX-License-Identifier: Apache-2.0
"""Reads placement's providers in the background, and says whether placement can be relied on."""

from __future__ import annotations

from datetime import timedelta

from roost.clock import Clock
from roost.errors import PlacementRefused, PlacementUnavailable
from roost.nova_cloud.placement.health import PlacementHealth
from roost.nova_cloud.placement.provider_reader import ProviderReader

SILENCE_SECONDS = 60.0
"""How long placement may be silent, or its providers not be read, before no request should be sent here; or four
times the interval of reads, if that is longer."""


class PlacementWatch:
    """Repeats the read of all providers, and gives the reasons of placement for not being ready."""

    def __init__(self, providers: ProviderReader, health: PlacementHealth, clock: Clock, interval: float) -> None:
        """`interval`: seconds between two reads of all providers."""
        self._providers, self._health, self._clock = providers, health, clock
        self._longest_silence = max(SILENCE_SECONDS, 4 * interval)
        self._started_at, self._read_trouble = clock.monotonic(), ""

    def read_providers(self) -> None:
        """Read all providers. That placement cannot be used is no error here: PlacementHealth has logged it."""
        try:
            self._providers.read_all()
        except (PlacementUnavailable, PlacementRefused) as error:
            self._read_trouble = str(error)
        else:
            self._read_trouble = ""

    def unready(self) -> list[str]:
        """That placement does not answer, or that its providers could not be read for long; empty when ready.

        Providers that were not read yet are no reason: until then requests ask placement.
        """
        answered_at, read_at = self._health.answered_at, self._providers.read_at
        if answered_at is None:
            why = self._health.trouble or "it was not asked yet"
            return [f"placement has not answered{self._since(self._started_at)}, the start: {why}"]
        if self._is_long_ago(answered_at):
            why = self._health.trouble or "a call is not answered"
            return [f"placement does not answer{self._since(answered_at)}: {why}"]
        if read_at is not None and self._is_long_ago(read_at):
            why = self._read_trouble or "the read takes longer"
            return [f"placement's providers could not be read{self._since(read_at)}: {why}"]
        return []

    def _is_long_ago(self, moment: float) -> bool:
        return self._clock.monotonic() - moment > self._longest_silence

    def _since(self, moment: float) -> str:
        began = self._clock.now() - timedelta(seconds=self._clock.monotonic() - moment)
        return f" since {began:%Y-%m-%d %H:%M:%S} UTC"
