# SPDX-License-Identifier: Apache-2.0
"""Group commit: jobs that wait at the same time share a transaction. A disk does some hundred commits a second."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

MOST_JOBS_PER_COMMIT = 64

Job = TypeVar("Job")


class _PendingJob(Generic[Job]):
    """A job, and its result or error once it is done."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.is_done = False
        self.result: Any = None
        self.error: BaseException | None = None

    def complete(self, outcome: Any) -> None:
        """Record the outcome: an exception is the job's error, anything else its result."""
        if isinstance(outcome, BaseException):
            self.error = outcome
        else:
            self.result = outcome
        self.is_done = True


class GroupCommit(Generic[Job]):
    """Commits the jobs of several threads together: one waiting thread commits for all. Has no thread of its own."""

    def __init__(self, commit_jobs: Callable[[Sequence[Job]], Sequence[Any]]) -> None:
        """`commit_jobs` returns a result or an exception for each job; an exception it raises goes to all of them."""
        self._commit_jobs = commit_jobs
        self._waiting: list[_PendingJob[Job]] = []
        self._queue_lock, self._commit_lock = threading.Lock(), threading.Lock()

    def submit(self, job: Job) -> Any:
        """Wait until the job is committed: its result, or its error raised."""
        pending = _PendingJob(job)
        with self._queue_lock:
            self._waiting.append(pending)
        while not pending.is_done:
            with self._commit_lock:
                if not pending.is_done:
                    self._commit_next_batch()
        if pending.error is not None:
            raise pending.error
        return pending.result

    def _commit_next_batch(self) -> None:
        with self._queue_lock:
            batch = self._waiting[:MOST_JOBS_PER_COMMIT]
            del self._waiting[:MOST_JOBS_PER_COMMIT]
        try:
            outcomes: Sequence[Any] = self._commit_jobs([pending.job for pending in batch])
        except BaseException as error:
            for pending in batch:
                pending.complete(error)
            if not isinstance(error, Exception):
                raise
            return
        for pending, outcome in zip(batch, outcomes, strict=True):
            pending.complete(outcome)
