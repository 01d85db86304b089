# SPDX-License-Identifier: Apache-2.0
import threading

import pytest

from roost.ledger import ledger
from roost.ledger.ledger import GroupCommit


def test_a_single_job_is_committed_without_waiting():
    assert GroupCommit(lambda jobs: [job * 2 for job in jobs]).submit(21) == 42


def test_each_job_gets_its_own_result_or_error():
    def halves(numbers):
        return [number // 2 if number % 2 == 0 else ValueError(number) for number in numbers]

    both = GroupCommit(halves)
    assert both.submit(8) == 4
    with pytest.raises(ValueError, match="7"):
        both.submit(7)


def test_an_error_of_the_commit_goes_to_all_its_jobs_and_not_to_the_next():
    answers = iter([OSError("disk"), ["fine"]])

    def work(jobs):
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    queue = GroupCommit(work)
    with pytest.raises(OSError, match="disk"):
        queue.submit("first")
    assert queue.submit("second") == "fine"


class Slow:
    """Blocks the first batch until `may_go_on` is set, so that later jobs have to wait."""

    def __init__(self):
        self.batches, self.is_working, self.may_go_on = [], threading.Event(), threading.Event()
        self.queue = GroupCommit(self.work)
        self.results = {}

    def work(self, jobs):
        self.batches.append(list(jobs))
        if len(self.batches) == 1:
            self.is_working.set()
            assert self.may_go_on.wait(30)
        return [f"done {job}" for job in jobs]

    def start(self, *jobs):
        threads = [threading.Thread(target=self.note, args=(job,)) for job in jobs]
        for thread in threads:
            thread.start()
        return threads

    def note(self, job):
        self.results[job] = self.queue.submit(job)

    def wait_for(self, count):
        while len(self.queue._waiting) < count:
            pass


def run_with(waiting):
    slow = Slow()
    threads = slow.start("first")
    assert slow.is_working.wait(30)
    threads += slow.start(*waiting)
    slow.wait_for(len(waiting))
    slow.may_go_on.set()
    for thread in threads:
        thread.join(30)
    return slow


def test_waiting_jobs_share_a_commit():
    slow = run_with(["a", "b", "c"])
    assert [sorted(batch) for batch in slow.batches] == [["first"], ["a", "b", "c"]]
    assert slow.results == {job: f"done {job}" for job in ("first", "a", "b", "c")}


def test_a_batch_has_a_bound(monkeypatch):
    monkeypatch.setattr(ledger, "MOST_JOBS_PER_COMMIT", 2)
    slow = run_with(["a", "b", "c", "d", "e"])
    assert sorted(len(batch) for batch in slow.batches) == [1, 1, 2, 2]
    assert len(slow.results) == 6
