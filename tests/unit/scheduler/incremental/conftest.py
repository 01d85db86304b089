# SPDX-License-Identifier: Apache-2.0
import pytest

from roost.scheduler.incremental import ranking


@pytest.fixture
def holds_few(monkeypatch):
    """Rankings hold few rows, so that on a small fleet, too, most are not held."""
    monkeypatch.setattr(ranking, "FEWEST_TOP_ROWS", 2)
    monkeypatch.setattr(ranking, "FEWEST_EXTREMES", 1)
