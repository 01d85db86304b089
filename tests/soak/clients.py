# SPDX-License-Identifier: Apache-2.0
"""Processes that work on a database, and what they say while they do: one JSON object per line, written at once."""

import contextlib
import importlib
import json
import multiprocessing
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from multiprocessing.connection import Connection
from typing import Any

PATIENCE_SECONDS = 120
"""How long a client may take for what it was asked, on a machine that has other things to do."""

Word = dict[str, Any]
Figures = dict[str, Any]
Progress = Callable[[int], None]
"""Told how much is done."""

# Children of a process that has imported everything: they are at work in no time.
_PROCESSES = multiprocessing.get_context("forkserver")
_WORKERS = ("crash_worker", "device_worker", "losing_worker", "move_worker", "race_worker")
_PROCESSES.set_forkserver_preload([f"tests.soak.{name}" for name in _WORKERS])


class BrokenPromise(AssertionError):
    """What must never happen was seen."""


def demand(is_kept: bool, seen: str) -> None:
    """Nothing, or BrokenPromise with what was seen instead."""
    if not is_kept:
        raise BrokenPromise(seen)


def no_progress(done: int) -> None:
    """For those who do not watch."""


def named(what: Iterable[object], most: int = 5) -> str:
    """A few of them, and how many there are."""
    found = list(what)
    return f"{len(found)}: {', '.join(map(str, found[:most]))}{' ...' if len(found) > most else ''}"


class Client:
    """A process that runs the `main` of a module, gone with us even where we are killed."""

    def __init__(self, module: str, orders: Word) -> None:
        """`orders`: what the `main` of that module, by its full name, is told."""
        self.words: list[Word] = []
        self._complaints = tempfile.NamedTemporaryFile()  # noqa: SIM115 - closed in close()
        hears, tells = _PROCESSES.Pipe(duplex=False)
        listens, says = _PROCESSES.Pipe(duplex=False)
        ends, self._lifeline = _PROCESSES.Pipe(duplex=False)
        self._process = _PROCESSES.Process(
            target=live, args=(module, orders, hears, says, ends, self._complaints.name), daemon=True
        )
        self._process.start()
        for theirs in (hears, says, ends):
            theirs.close()
        self._told, self._heard = os.fdopen(os.dup(tells.fileno()), "w"), os.fdopen(os.dup(listens.fileno()), "rb")
        for doubled in (tells, listens):
            doubled.close()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        for line in self._heard:
            if line.endswith(b"\n"):  # else it was killed in the middle of a word
                self.words.append(json.loads(line))

    def said(self, word: str) -> list[Word]:
        """All lines of this kind."""
        return [each for each in list(self.words) if each["word"] == word]

    def wait_for(self, is_said: Callable[["Client"], bool], what: str) -> None:
        """Until it is; BrokenPromise where the process ends before, or takes too long."""
        give_up = time.monotonic() + PATIENCE_SECONDS
        while not is_said(self):
            self.check_runs()
            demand(time.monotonic() < give_up, f"a client was not {what} after {PATIENCE_SECONDS} s")
            time.sleep(0.01)

    def check_runs(self) -> None:
        """BrokenPromise where it has ended: none does so by itself."""
        demand(self._process.is_alive(), f"a client ended by itself: {self.complaints()}")

    def tell(self, line: str) -> None:
        """One line on its standard input."""
        self._told.write(f"{line}\n")
        self._told.flush()

    def kill(self) -> None:
        """In whatever it is doing; all that it said is heard."""
        self._process.kill()
        self._end()

    def finish(self) -> None:
        """Let it end what it is doing: BrokenPromise where it fails."""
        self.tell("stop")
        self._process.join(PATIENCE_SECONDS)
        demand(not self._process.is_alive(), f"a client did not end after {PATIENCE_SECONDS} s")
        self._end()
        demand(self._process.exitcode == 0, f"a client failed: {self.complaints()}")

    def _end(self) -> None:
        self._process.join()
        self._listener.join()
        for stream in (self._told, self._heard, self._lifeline):
            stream.close()

    def complaints(self) -> str:
        """What it wrote on standard error, the end of it."""
        self._complaints.seek(0)
        return self._complaints.read().decode(errors="replace")[-2000:]

    def close(self) -> None:
        """Whatever state it is in."""
        self._process.kill()
        self._end()
        self._complaints.close()


class Clients:
    """Several of them, all gone at the end of the `with`."""

    def __init__(self) -> None:
        self.all: list[Client] = []
        """The dead too: what they said counts."""

    def __enter__(self) -> "Clients":
        return self

    def __exit__(self, *_: object) -> None:
        for client in self.all:
            client.close()

    def start(self, module: str, orders: Sequence[Word]) -> list[Client]:
        """One for each of these orders; all are ready when this returns."""
        started = [Client(module, each) for each in orders]
        self.all += started
        for client in started:
            client.wait_for(lambda client: bool(client.said("ready")), "ready")
        return started


_SAYING = threading.Lock()


def say(word: str, **more: object) -> None:
    """In a client: one line, out before anything else is done."""
    line = json.dumps({"word": word, **more}) + "\n"
    with _SAYING:
        sys.stdout.write(line)
        sys.stdout.flush()


def live(
    module: str, orders: Word, hears: Connection, says: Connection, lifeline: Connection, complaints: str
) -> None:
    """In a client: all its life. What it says goes to standard output, what it is told comes from standard input."""
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()
    for number, file in enumerate((hears.fileno(), says.fileno(), os.open(complaints, os.O_WRONLY | os.O_APPEND))):
        os.dup2(file, number)
    sys.stdin = os.fdopen(0)
    importlib.import_module(module).main(orders)


def _end_with(lifeline: Connection) -> None:
    """Nobody writes to it: once it is closed, whoever started us is gone."""
    with contextlib.suppress(EOFError, OSError):
        lifeline.recv_bytes()
    os._exit(1)
