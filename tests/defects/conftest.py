# SPDX-License-Identifier: Apache-2.0
"""Databases as in tests/store."""

from tests.store.conftest import address, databases, empty, kind, opened

__all__ = ["address", "databases", "empty", "kind", "opened"]
