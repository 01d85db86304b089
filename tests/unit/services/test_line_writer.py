# SPDX-License-Identifier: Apache-2.0
"""D23: nobody who notes a line waits for the pipe or the disk that it goes to."""

import os
import threading

import pytest

from roost.services import log_handlers
from roost.services.log_handlers import LineWriter

SOON, NEVER = 20.0, 0.01


class Pipe:
    """A pipe that nobody reads until the test does, behind a writer."""

    def __init__(self, **more):
        reader, self.end = os.pipe()
        self.reader, self.lost = os.fdopen(reader), []
        self.writer = LineWriter(
            lambda text: write_all(self.end, text), lambda *lost: self.lost.append(lost), name="test", **more
        )

    def read_lines(self, count):
        return [self.reader.readline() for _ in range(count)]


def write_all(descriptor, text):
    data = memoryview(text.encode())
    while data:
        data = data[os.write(descriptor, data) :]


@pytest.fixture
def pipe(monkeypatch):
    monkeypatch.setattr(log_handlers, "MOST_WAITING", 200_000)
    made = Pipe(line_about_dropped=lambda count: f"{count} dropped\n")
    yield made
    made.reader.close()  # a write that still waits fails
    made.writer.close(SOON)
    os.close(made.end)


def test_lines_come_in_their_order(pipe):
    for number in range(100):
        pipe.writer.put(f"{number}\n")
    assert pipe.read_lines(100) == [f"{number}\n" for number in range(100)]
    assert pipe.writer.flush(SOON)


def test_a_pipe_that_nobody_reads_costs_lines_and_no_time(pipe):
    line = "x" * 999 + "\n"
    for _ in range(1000):  # 1 MB: more than a pipe and the queue take together
        pipe.writer.put(line)
    assert not pipe.writer.flush(NEVER)
    dropped = len(pipe.lost)
    assert pipe.lost == [(1, None)] * dropped
    assert 500 < dropped <= 800  # the queue takes 200 kB, a pipe 64, and what is being written at most 200
    reported = read = 0
    while read + reported < 1000:
        (found,) = pipe.read_lines(1)
        read += found == line
        reported += 0 if found == line else int(found.removesuffix(" dropped\n"))
    assert (read, reported) == (1000 - dropped, dropped)
    pipe.writer.put("again\n")
    assert pipe.read_lines(1) == ["again\n"]


def test_a_flush_waits_for_what_was_noted_before_it_alone():
    written, may_write = [], threading.Semaphore(0)

    def write(text):
        assert may_write.acquire(timeout=SOON)
        written.append(text)

    writer = LineWriter(write, lambda *lost: None, name="test")
    writer.put("first\n")
    flushed = threading.Thread(target=lambda: written.append(writer.flush(SOON)))
    flushed.start()
    may_write.release()
    flushed.join(SOON)
    writer.put("second\n")
    assert not writer.flush(NEVER)
    may_write.release()
    assert writer.close(SOON)
    assert written == ["first\n", True, "second\n"]


def test_lines_that_cannot_be_written_are_told_with_the_error(pipe):
    pipe.reader.close()
    pipe.writer.put("lost\n")
    assert pipe.writer.flush(SOON)
    ((count, error),) = pipe.lost
    assert (count, type(error)) == (1, BrokenPipeError)


def test_lines_after_the_end_are_written_too(pipe):
    pipe.writer.put("one\n")
    assert pipe.writer.close(SOON)
    pipe.writer._thread.join(SOON)
    pipe.writer.put("two\n")
    assert pipe.read_lines(2) == ["one\n", "two\n"]
