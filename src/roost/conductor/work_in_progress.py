# SPDX-License-Identifier: Apache-2.0
"""What a conductor works on now: a message about it that comes again meanwhile is ignored."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class WorkInProgress:
    """Servers that this process works on now, by generation. Thread-safe."""

    def __init__(self) -> None:
        self._lock, self._keys = threading.Lock(), set[tuple[str, int]]()

    @contextmanager
    def begin(self, server_uuid: str, generation: int) -> Iterator[bool]:
        """Within it, the server counts as worked on; False if it did before."""
        key = (server_uuid, generation)
        with self._lock:
            is_new = key not in self._keys
            self._keys.add(key)
        try:
            yield is_new
        finally:
            if is_new:
                with self._lock:
                    self._keys.discard(key)
