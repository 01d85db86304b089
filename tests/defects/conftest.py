# SPDX-License-Identifier: Apache-2.0
"""Databases as in tests/store, small clouds as in tests/flow, commands as in tests/cli."""

from tests.cli.conftest import place_on, roost
from tests.flow.conftest import make_cloud
from tests.store.conftest import address, current, empty, kind, opened
from tests.store.test_audit import book

__all__ = ["address", "book", "current", "empty", "kind", "make_cloud", "opened", "place_on", "roost"]
