# SPDX-License-Identifier: Apache-2.0
"""D23: a handler of the log that raises, or whose pipe nobody reads, neither fails nor delays who logs."""

import io
import logging
import os
from contextlib import suppress

import pytest
import structlog

from roost.best_effort import SWALLOWED
from roost.services import log_handlers
from roost.services.log_handlers import TolerantLogger, tolerate_failing_handlers
from roost.services.logs import set_up_logging
from roost.services.options import LogOptions

pytestmark = pytest.mark.usefixtures("logging_as_before")


class RaisingHandler(logging.Handler):
    """A handler of somebody else: those of the standard library report an error, this one raises it."""

    def emit(self, record):
        raise OSError("the collector of logs is away")


def lost_lines():
    return SWALLOWED.counts().get("log", 0)


def set_up(stream=None):
    stream = stream or io.StringIO()
    set_up_logging(LogOptions(), "roost", stream)
    return stream


@pytest.mark.parametrize("get_logger", [logging.getLogger, structlog.get_logger])
def test_a_handler_that_raises_fails_nobody_and_the_others_get_the_record(get_logger):
    stream, before = set_up(), lost_lines()
    name = f"roost.tests.{get_logger.__module__}"
    logging.getLogger(name).addHandler(RaisingHandler())
    for number in range(3):
        get_logger(name).info("said %d", number)
    logging.getLogger().handlers[0].flush()
    lines = stream.getvalue().splitlines()
    assert [line.partition(f"{name} ")[2] for line in lines if "INFO" in line] == ["said 0", "said 1", "said 2"]
    assert lost_lines() == before + 3


def test_an_error_of_a_handler_is_logged_once():
    stream = set_up()
    logger = logging.getLogger("roost.tests.once")
    handler = RaisingHandler()
    handler.emit = lambda record: 1 / 0
    logger.addHandler(handler)
    for _ in range(3):
        logger.info("said")
    logging.getLogger().handlers[0].flush()
    (line,) = [line for line in stream.getvalue().splitlines() if "ERROR" in line]
    assert "log: ZeroDivisionError is ignored" in line
    assert "Traceback" in line


def test_a_filter_that_raises_fails_nobody():
    set_up()
    logger, before = logging.getLogger("roost.tests.filtered"), lost_lines()
    logger.addFilter(lambda record: 1 / 0)
    logger.info("said")
    assert lost_lines() == before + 1


def test_a_formatter_that_raises_fails_nobody():
    set_up()
    (handler,), before = logging.getLogger().handlers, lost_lines()
    handler.format = lambda record: 1 / 0
    logging.getLogger("roost.tests").info("said")
    assert lost_lines() == before + 1


def test_a_pipe_that_nobody_reads_delays_neither_who_logs_nor_the_end(monkeypatch):
    monkeypatch.setattr(log_handlers, "FLUSH_SECONDS", 0.01)
    monkeypatch.setattr(log_handlers, "MOST_WAITING", 100_000)
    reader, end = os.pipe()
    before = lost_lines()
    stream = set_up(os.fdopen(end, "w"))
    (handler,) = logging.getLogger().handlers
    for _ in range(1000):  # a pipe takes 64 kB; what was taken to be written, may be up to 100 kB
        logging.getLogger("roost.tests").info("x" * 1000)
    assert lost_lines() > before + 500
    handler.flush()
    handler.close()
    os.close(reader)  # the write that waits fails
    handler._writer._thread.join(20)
    logging.getLogger().handlers.clear()
    with suppress(BrokenPipeError):  # where something was left in its buffer
        stream.close()


def test_loggers_of_one_package_alone_are_made_tolerant():
    logging.setLoggerClass(logging.Logger)
    ours, theirs = logging.getLogger("fresh_package.ours"), logging.getLogger("fresh_packages.theirs")
    tolerate_failing_handlers("fresh_package")
    assert isinstance(ours, TolerantLogger)
    assert type(theirs) is logging.Logger
    assert logging.getLoggerClass() is logging.Logger
    tolerate_failing_handlers()
    assert isinstance(logging.getLogger("fresh_package.later"), TolerantLogger)
