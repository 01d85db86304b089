# SPDX-License-Identifier: Apache-2.0
"""Logging is global to a process: each test here gives it back as it was."""

import logging
import threading

import pytest
import structlog
from tests.clocks import HandClock

from roost.services import logs


@pytest.fixture
def clock():
    return HandClock()


@pytest.fixture
def logging_as_before():
    root, hook = logging.getLogger(), threading.excepthook
    handlers, level, configuration = root.handlers[:], root.level, structlog.get_config()
    yield
    for handler in root.handlers:
        if handler not in handlers:
            handler.close()
    root.handlers[:] = handlers
    root.setLevel(level)
    logs._set_own_levels({})
    logging.captureWarnings(False)
    threading.excepthook = hook
    structlog.configure(**configuration)
