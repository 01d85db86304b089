# SPDX-License-Identifier: Apache-2.0
"""Writes lines in the background: whoever notes one waits for no full pipe and no slow disk."""

from __future__ import annotations

import threading
from collections.abc import Callable

MOST_WAITING = 8 * 1024 * 1024
"""Characters that wait to be written; further lines are dropped."""


class LineWriter:
    """A bounded queue of lines and the daemon thread that writes them. May be shared by threads."""

    def __init__(
        self,
        write: Callable[[str], None],
        on_lost: Callable[[int, Exception | None], None],
        *,
        name: str,
        line_about_dropped: Callable[[int], str] = lambda count: "",
    ) -> None:
        """`write`: writes text; called by one thread at a time. `name`: of that thread.

        `on_lost`: called for lines that are lost, with their number and the error; None: the queue was full.
        `line_about_dropped`: the line that is written in place of so many dropped ones.
        """
        self._name = name
        self._write, self._on_lost, self._line_about_dropped = write, on_lost, line_about_dropped
        self._changed = threading.Condition()
        """Guards everything below, and notifies when it changes. Nothing is written while it is held."""
        self._lines: list[str] = []
        self._waiting = 0
        """Characters of those lines."""
        self._dropped = 0
        """Lines that were dropped and not reported yet."""
        self._queued = self._taken = self._done = 0
        """Lines since the beginning: that were queued, that the thread took of these, that it has written or lost."""
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def put(self, line: str) -> None:
        """Queue a line, with its line end; drop it where too much waits already."""
        with self._changed:
            has_room = self._waiting + len(line) <= MOST_WAITING
            if has_room:
                self._lines.append(line)
                self._waiting += len(line)
                self._queued += 1
                self._changed.notify_all()
            else:
                self._dropped += 1
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
        if not has_room:
            self._on_lost(1, None)

    def flush(self, seconds: float) -> bool:
        """Wait until the lines that are queued by now are written, for so long at most; returns whether they are."""
        with self._changed:
            queued = self._queued
            return self._changed.wait_for(lambda: self._done >= queued, seconds)

    def close(self, seconds: float) -> bool:
        """Flush, and end the thread when it has nothing to write; returns whether all lines are written."""
        is_written = self.flush(seconds)
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        return is_written

    def _run(self) -> None:
        while lines := self._take():
            try:
                self._write("".join(lines))
            except Exception as error:
                self._on_lost(len(lines), error)
            with self._changed:
                self._done = self._taken
                self._changed.notify_all()

    def _take(self) -> list[str]:
        """All lines that wait, once there are some; none at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._lines or self._is_closed)
            lines, self._lines, self._waiting = self._lines, [], 0
            self._taken = self._queued
            if self._dropped:  # while these filled the queue, so after them
                lines.append(self._line_about_dropped(self._dropped))
                self._dropped = 0
            return lines
