# SPDX-License-Identifier: Apache-2.0
"""A real placement per process; for each test an empty one, behind a proxy."""

import pytest
from tests.nova_cloud.placement.cloud import Cloud
from tests.nova_cloud.placement.placement_server import PlacementServer


@pytest.fixture(scope="session")
def placement(tmp_path_factory):
    server = PlacementServer(tmp_path_factory.mktemp("placement"))
    yield server
    server.stop()


@pytest.fixture
def cloud(placement, tmp_path):
    made = Cloud(placement.port, tmp_path)
    yield made
    made.close()
    placement.clear()
