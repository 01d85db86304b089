# SPDX-License-Identifier: Apache-2.0
"""Those who wait at the same moment share a commit: a disk makes some hundred a second, and each may be for many."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

MOST_TOGETHER = 64

Job = TypeVar("Job")


class _Ticket(Generic[Job]):
    """One who waits, and what became of it."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.is_done = False
        self.result: Any = None
        self.error: BaseException | None = None

    def settle(self, outcome: Any) -> None:
        """The result, or the error that is one."""
        if isinstance(outcome, BaseException):
            self.error = outcome
        else:
            self.result = outcome
        self.is_done = True


class GroupCommit(Generic[Job]):
    """Whoever comes first does the work of all who came meanwhile; there is no thread of its own."""

    def __init__(self, do_all: Callable[[Sequence[Job]], Sequence[Any]]) -> None:
        """`do_all` gives one result per job, or the error that a job ends with; what it raises is for all of them."""
        self._do_all = do_all
        self._waiting: list[_Ticket[Job]] = []
        self._queue, self._turn = threading.Lock(), threading.Lock()

    def do(self, job: Job) -> Any:
        """The result of this job, once it is there."""
        ticket = _Ticket(job)
        with self._queue:
            self._waiting.append(ticket)
        while not ticket.is_done:
            with self._turn:
                if not ticket.is_done:
                    self._work()
        if ticket.error is not None:
            raise ticket.error
        return ticket.result

    def _work(self) -> None:
        with self._queue:
            batch = self._waiting[:MOST_TOGETHER]
            del self._waiting[:MOST_TOGETHER]
        try:
            outcomes: Sequence[Any] = self._do_all([ticket.job for ticket in batch])
        except BaseException as error:
            for ticket in batch:
                ticket.settle(error)
            if not isinstance(error, Exception):
                raise
            return
        for ticket, outcome in zip(batch, outcomes, strict=True):
            ticket.settle(outcome)
