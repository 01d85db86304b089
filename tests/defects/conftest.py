# SPDX-License-Identifier: Apache-2.0
"""Databases as in tests/store."""

from tests.store.conftest import databases, kind, opened

__all__ = ["databases", "kind", "opened"]
