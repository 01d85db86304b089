# SPDX-License-Identifier: Apache-2.0
"""Gets the answers to cases: from nova in long-running child processes, from Roost in this process."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import Any

from roost.testing.vectors import answer

ORACLE = Path(__file__).with_name("oracle.py")


class OracleError(Exception):
    """nova did not start, or its process ended."""


class Oracle:
    """A child process that runs the real nova: `ask` writes one case and reads one answer."""

    def __init__(self, python: Path) -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed with the process)
        command = [str(python), "-W", "ignore", str(ORACLE)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True
        )

    def ask(self, case: dict[str, Any]) -> dict[str, Any]:
        """The answer of nova to a case. Raises OracleError if the process has ended."""
        try:
            self._process.stdin.write(json.dumps(case) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise OracleError(f"nova ended at case {case['id']}:\n{self._last_errors()}")
        return json.loads(line)

    def _last_errors(self) -> str:
        self._process.wait()
        self._errors.seek(0)
        return "".join(self._errors.readlines()[-20:]) or "it said nothing"

    def __enter__(self) -> Oracle:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.terminate()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            stream.close()


def ask_nova(cases: Sequence[dict[str, Any]], python: Path, processes: int) -> Iterator[dict[str, Any]]:
    """The answers of nova, in the order of the cases, from so many processes."""
    idle: SimpleQueue[Oracle] = SimpleQueue()

    def ask(case: dict[str, Any]) -> dict[str, Any]:
        oracle = idle.get()
        try:
            return oracle.ask(case)
        finally:
            idle.put(oracle)

    with ExitStack() as open_oracles, ThreadPoolExecutor(processes) as pool:
        for _ in range(processes):
            idle.put(open_oracles.enter_context(Oracle(python)))
        yield from pool.map(ask, cases)


def ask_roost(case: dict[str, Any]) -> dict[str, Any]:
    """The answer of Roost. An unexpected exception gives an error that equals no answer of nova."""
    try:
        return answer(case)
    except Exception as error:
        return {"id": case["id"], "error": {"type": f"{type(error).__name__} (a crash)", "message": str(error)}}
