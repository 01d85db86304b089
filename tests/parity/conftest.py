# SPDX-License-Identifier: Apache-2.0
import pytest

from roost.scheduler.incremental import request_classes as classes


@pytest.fixture(autouse=True)
def _keeping_from_the_first_request_on(monkeypatch):
    """As in a large fleet: tests of what is kept need not ask twice."""
    monkeypatch.setattr(classes, "SMALL_FLEET", 0)
