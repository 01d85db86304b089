# SPDX-License-Identifier: Apache-2.0
"""How long a message may have waited in its queue: messages do not say when they were sent.

A server that had to wait for a message has seen its queue empty a moment before. What it takes afterwards was sent
since then, at most that long ago.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

EMPTY_SECONDS = 0.05
"""A message that takes longer to come was not in the queue when the server began to wait for it."""
FIRST_EMPTY_SECONDS = 2.0
"""For the first message over a connection, which is still being made."""


class QueueWait:
    """Bounds the time in the queue of the messages that one thread takes. Not thread-safe."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock`: monotonic seconds. The server begins to wait now."""
        self._clock, self._began, self._threshold = clock, clock(), FIRST_EMPTY_SECONDS
        self._empty_at = -inf
        self._connection: object = None

    def note_arrival(self, connection: object = None) -> None:
        """A message has come over this connection: nothing is known of the queue while there was another one."""
        if self._connection is not None and connection is not self._connection:
            self._began, self._threshold, self._empty_at = self._clock(), FIRST_EMPTY_SECONDS, -inf
        self._connection = connection
        if self._clock() - self._began >= self._threshold:
            self._empty_at = self._clock()
        self._threshold = EMPTY_SECONDS

    def seconds(self) -> float:
        """How long the message that came last may have waited until now, in its queue and since; may be infinite."""
        return self._clock() - self._empty_at

    def wait_for_next(self) -> None:
        """The server begins to wait for another message."""
        self._began = self._clock()
