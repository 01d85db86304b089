# SPDX-License-Identifier: Apache-2.0
"""Databases as in tests/store, small clouds as in tests/flow, commands as in tests/cli."""

from tests.cli.conftest import place_on, roost
from tests.flow.conftest import make_cloud
from tests.store.conftest import address, databases, empty, kind, opened

__all__ = ["address", "databases", "empty", "kind", "make_cloud", "opened", "place_on", "roost"]
