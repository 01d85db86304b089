# SPDX-License-Identifier: Apache-2.0
"""A write-ahead journal of claims: which were begun, and which of them were answered.

A scheduler that is killed after a claim and before its answer leaves an allocation that no instance uses. So each
claim is noted in a file before it is made, and noted again when its caller has the answer. The file is locked while
its process lives. A scheduler that finds one without a lock takes over what was not answered
(`abandoned_claims.py`). Notes are not synced to disk: they survive a killed process, not a power failure.
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

from roost.errors import OptionError

LOG = logging.getLogger(__name__)

PATTERN = "claims-*.journal"
LONGEST_BYTES = 1 << 20
"""A file that is longer is written anew, with the claims that are open."""


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
            for consumer, until in found.items():
                self._write({"begin": [consumer], "until": until})

    def begin(self, consumers: Collection[str]) -> None:
        """These claims are about to be made."""
        with self._lock:
            self._open.update(consumers)
            self._write({"begin": list(consumers), "until": self._now() + self._patience_seconds})

    def end(self, consumers: Collection[str]) -> None:
        """These claims were refused or answered, or released."""
        with self._lock:
            self._open.difference_update(consumers)
            for consumer in consumers:
                self._abandoned.pop(consumer, None)
            self._write({"end": list(consumers)})
            self._shorten()

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
        with self._lock:
            if self._file is None or self._path is None:
                return
            if not (self._open or self._abandoned):
                self._path.unlink(missing_ok=True)
            os.close(self._file)
            self._file = None

    def _write(self, note: dict[str, object]) -> None:
        if self._file is None:
            return
        try:
            os.write(self._file, (json.dumps(note) + "\n").encode())
        except OSError as error:
            LOG.error("claims are not noted any more: %s: %s", self._path, error.strerror)
            os.close(self._file)
            self._file = None

    def _shorten(self) -> None:
        """Leave only the notes of claims that are open, if the file is long."""
        if self._file is None:
            return
        with suppress(OSError):
            if os.fstat(self._file).st_size <= LONGEST_BYTES:
                return
            os.ftruncate(self._file, 0)
        until = dict.fromkeys(self._open, self._now() + self._patience_seconds) | self._abandoned
        for consumer, moment in until.items():
            self._write({"begin": [consumer], "until": moment})


def _open_claims(lines: list[bytes]) -> Iterator[tuple[str, float]]:
    begun: dict[str, float] = {}
    for line in lines:
        with suppress(ValueError, TypeError, AttributeError):  # the last line may be cut off
            note = json.loads(line)
            begun |= dict.fromkeys(map(str, note.get("begin", ())), float(note.get("until", 0)))
            for consumer in note.get("end", ()):
                begun.pop(consumer, None)
    yield from begun.items()
