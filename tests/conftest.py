# SPDX-License-Identifier: Apache-2.0
"""Shared by all tests: generated examples are the same on every machine, so that red is red everywhere."""

import gc

import pytest
from hypothesis import settings
from tests.rpc.broker import RabbitMQ
from tests.store.databases import Databases

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


@pytest.fixture(scope="session")
def databases(tmp_path_factory):
    """New databases, on servers that all tests of this process share."""
    made = Databases(tmp_path_factory.mktemp("databases"))
    yield made
    made.stop()


@pytest.fixture(scope="session")
def broker():
    """A broker that all tests of this process share."""
    started = RabbitMQ()
    yield started
    started.stop()
