# SPDX-License-Identifier: Apache-2.0
"""A write-ahead journal of claims: which were begun, and which of them were answered.

A scheduler that is killed after a claim and before its answer leaves an allocation that no instance uses. So each
claim is noted in a file before it is made, and noted again when its caller has the answer. The file is locked while
its process lives. A scheduler that finds one without a lock takes over what was not answered
(`abandoned_claims.py`). Notes are not synced to disk: they survive a killed process, not a power failure.

A claim waits for its note, but not for long: a disk that hangs or is full costs notes, never a request.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import threading
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from roost.best_effort import SWALLOWED, best_effort
from roost.errors import OptionError
from roost.services.line_writer import LineWriter

LOG = logging.getLogger(__name__)

PATTERN = "claims-*.journal"
LONGEST_BYTES = 1 << 20
"""A file that is longer is written anew, with the claims that are open."""
LONGEST_WAIT_SECONDS = 1.0
"""How long a claim waits for its note to be written. While the disk hangs, the claims after it do not wait."""


class ClaimJournal:
    """The journal of one process. May be shared by threads."""

    def __init__(self, folder: Path | None, now: Callable[[], float], patience_seconds: float) -> None:
        """`folder`: None: claims are noted in memory only. `now`: seconds since the epoch.

        `patience_seconds`: after that time the caller of a claim that was not answered has given up.
        """
        self._folder, self._now, self._patience_seconds = folder, now, patience_seconds
        self._lock = threading.Lock()
        self._open: set[str] = set()
        """Consumers of claims that were begun, and neither refused nor answered yet."""
        self._abandoned: dict[str, float] = {}
        """Consumer of a claim that may be held and is not answered -> when its caller has given up."""
        self._file: int | None = None
        self._path: Path | None = None
        self._writer = LineWriter(self._append, self._note_lost, name="claim journal")
        self._is_stuck = False
        """Whether a note was not written in time, and is not yet."""

    def open(self) -> None:
        """Make the file; OptionError where the folder cannot be used."""
        if self._folder is None or self._file is not None:
            return
        name = f"claims-{uuid.uuid4().hex}"
        made, self._path = self._folder / f"{name}.new", self._folder / f"{name}.journal"
        try:
            self._file = os.open(made, os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o600)
            fcntl.flock(self._file, fcntl.LOCK_EX)
            made.rename(self._path)  # others see it only now that it is locked
        except OSError as error:
            problem = f"[roost] state_directory = {self._folder}: {error.strerror}"
            raise OptionError(problem, "name a folder that this user may write to") from None

    def take_over(self) -> None:
        """Take over the claims in files whose processes are gone, and remove the files."""
        if self._folder is None or self._file is None:
            return
        for path in sorted(self._folder.glob(PATTERN)):
            if path != self._path:
                with suppress(BlockingIOError, FileNotFoundError), path.open("rb") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    self._adopt(path.name, dict(_open_claims(file.read().splitlines())))
                    path.unlink(missing_ok=True)

    def _adopt(self, name: str, found: Mapping[str, float]) -> None:
        LOG.info("claims of a scheduler that was killed are looked at: %d in %s", len(found), name)
        with self._lock:
            self._abandoned.update(found)
            self._queue(*({"begin": [consumer], "until": until} for consumer, until in found.items()))
        self._wait()

    @best_effort("claim_journal")
    def begin(self, consumers: Collection[str]) -> None:
        """These claims are about to be made."""
        with self._lock:
            self._open.update(consumers)
            self._queue({"begin": list(consumers), "until": self._now() + self._patience_seconds})
        self._wait()

    @best_effort("claim_journal")
    def end(self, consumers: Collection[str]) -> None:
        """These claims were refused or answered, or released."""
        with self._lock:
            self._open.difference_update(consumers)
            for consumer in consumers:
                self._abandoned.pop(consumer, None)
            self._queue({"end": list(consumers)})
        self._wait()

    @best_effort("claim_journal")
    def abandon(self, consumers: Collection[str]) -> None:
        """It is not known whether these claims were made, and their callers are told that they were not."""
        with self._lock:
            self._open.difference_update(consumers)
            self._abandoned.update(dict.fromkeys(consumers, self._now() + self._patience_seconds))

    def abandoned(self) -> dict[str, float]:
        """Consumers whose callers have given up by now -> when they did, in seconds since the epoch."""
        with self._lock:
            return {consumer: until for consumer, until in self._abandoned.items() if until <= self._now()}

    def close(self) -> None:
        """Close the file; it is removed unless claims in it are open."""
        is_written = self._writer.close(LONGEST_WAIT_SECONDS)
        with self._lock:
            if self._file is None or self._path is None:
                return
            if not (self._open or self._abandoned):
                self._path.unlink(missing_ok=True)
            if is_written:  # otherwise closing it would wait, too
                os.close(self._file)
            self._file = None

    # --- the file ---

    def _queue(self, *notes: dict[str, object]) -> None:
        """Have notes written in the background, in the order of the calls."""
        if self._is_stuck:
            self._is_stuck = not self._writer.flush(0.0)
        for note in notes if self._file is not None else ():
            self._writer.put(_line(note))

    def _wait(self) -> None:
        """Wait until all notes are written, unless the disk is known to hang."""
        if not self._is_stuck and not self._writer.flush(LONGEST_WAIT_SECONDS):
            self._is_stuck = True
            LOG.error("claims are not noted in time: the disk of %s hangs", self._path)

    def _append(self, text: str) -> None:
        if self._file is not None:
            os.write(self._file, text.encode())
            self._shorten(self._file)

    def _note_lost(self, notes: int, error: Exception | None) -> None:
        SWALLOWED.count("claim_journal", notes)
        if error is not None and self._file is not None:
            LOG.error("claims are not noted any more: %s: %s", self._path, getattr(error, "strerror", None) or error)
            os.close(self._file)
            self._file = None

    def _shorten(self, file: int) -> None:
        """Leave only the notes of claims that are open, if the file is long; queued ones come after them."""
        if os.fstat(file).st_size <= LONGEST_BYTES:
            return
        with self._lock:
            until = dict.fromkeys(self._open, self._now() + self._patience_seconds) | self._abandoned
        os.ftruncate(file, 0)
        lines = (_line({"begin": [consumer], "until": moment}) for consumer, moment in until.items())
        os.write(file, "".join(lines).encode())


def _line(note: dict[str, object]) -> str:
    return json.dumps(note) + "\n"


def _open_claims(lines: list[bytes]) -> Iterator[tuple[str, float]]:
    begun: dict[str, float] = {}
    for line in lines:
        with suppress(ValueError, TypeError, AttributeError):  # the last line may be cut off
            note = json.loads(line)
            begun |= dict.fromkeys(map(str, note.get("begin", ())), float(note.get("until", 0)))
            for consumer in note.get("end", ()):
                begun.pop(consumer, None)
    yield from begun.items()
