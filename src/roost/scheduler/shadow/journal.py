# SPDX-License-Identifier: Apache-2.0
"""Where the records of shadow mode go: the log, the metrics, and a file of JSON lines."""

from __future__ import annotations

import threading
from errno import ENOSPC
from io import SEEK_END, FileIO
from pathlib import Path
from typing import Any, Protocol

import structlog

from roost.best_effort import best_effort
from roost.errors import OptionError
from roost.scheduler.shadow.record import ShadowRecord
from roost.services.logs import bound

LOG = structlog.get_logger(__name__)


class ShadowMetrics(Protocol):
    """What counts the requests of shadow mode."""

    def shadow_compared(self, verdict: str, roost_us: float | None, nova_us: float | None) -> None:
        """A request has its verdict; microseconds that each scheduler took, where they are known."""


class Journal:
    """Notes records. May be shared by threads."""

    def __init__(self, file: str, metrics: ShadowMetrics) -> None:
        """`file`: lines are added to it; empty for none. OptionError where it cannot be written."""
        self._path, self._metrics = file, metrics
        self._lock = threading.Lock()
        self._file: FileIO | None = _open(file) if file else None
        self._is_failing = False
        self._is_torn = bool(file) and _ends_within_a_line(Path(file))
        """Whether the file ends with a part of a line."""

    @best_effort("shadow")
    def note(self, record: ShadowRecord) -> None:
        """Count and log a record, and add it to the file."""
        self._metrics.shadow_compared(record.verdict, record.roost_us, record.nova_us)
        facts: dict[str, Any] = {"why": record.why, "roost_host": record.roost_host, "nova_host": record.nova_host}
        facts |= {"instance": record.instance, "source": record.source}
        times = {"roost_us": record.roost_us, "refresh_us": record.refresh_us, "nova_us": record.nova_us}
        facts |= {name: None if each is None else round(each) for name, each in times.items()}
        with bound(request_id=record.request_id):
            LOG.info("shadow", verdict=record.verdict, **{name: each for name, each in facts.items() if each})
        with self._lock:
            self._write(record.to_line())

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None

    def _write(self, line: str) -> None:
        """Add a line; the first failure and the recovery are logged."""
        if self._file is None:
            return
        data = f"\n{line}\n".encode() if self._is_torn else f"{line}\n".encode()
        try:
            written = self._file.write(data) or 0
            self._is_torn = written < len(data) and (written > 0 or self._is_torn)
            if written < len(data):
                raise OSError(ENOSPC, "the line was cut off: is the disk full?")
        except OSError as error:
            if not self._is_failing:
                LOG.warning("the report of shadow mode cannot be written", file=self._path, error=str(error))
            self._is_failing = True
        else:
            if self._is_failing:
                LOG.info("the report of shadow mode is written again", file=self._path)
            self._is_failing = False


def _ends_within_a_line(file: Path) -> bool:
    """Whether the last line of a file was cut off; False where it cannot be read, or is no regular file."""
    try:
        if not file.is_file() or not file.stat().st_size:
            return False
        with file.open("rb") as opened:
            opened.seek(-1, SEEK_END)
            return opened.read(1) != b"\n"
    except OSError:
        return False


def _open(file: str) -> FileIO:
    """The file, unbuffered: a line is in it at once, or lost, and does not come later."""
    try:
        return FileIO(file, "a")
    except OSError as error:
        problem = f"[roost] shadow_report: {file} cannot be written: {error.strerror or error}"
        raise OptionError(problem, "name a file in a folder that this user may write to") from None
