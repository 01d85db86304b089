# SPDX-License-Identifier: Apache-2.0
"""Shared by all tests: generated examples are the same on every machine, so that red is red everywhere."""

import gc

from hypothesis import settings

settings.register_profile("same-everywhere", derandomize=True, deadline=None)
settings.load_profile("same-everywhere")


def pytest_collection_finish():
    """Exempt the modules and the thousands of collected tests from garbage collection: they stay until the end.

    Each full collection would traverse them, most of all in tests of benchmarks, which collect before each request.
    `gc.unfreeze` would end the exemption for all later tests.
    """
    gc.collect()
    gc.freeze()
    gc.unfreeze = lambda: None
