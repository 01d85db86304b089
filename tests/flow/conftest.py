# SPDX-License-Identifier: Apache-2.0
"""Clouds that are gone when a test is over."""

import pytest
from tests.flow.cloud import Cloud


@pytest.fixture
def make_cloud(tmp_path):
    made = []

    def make(hosts, options=None, files=(), **sections):
        folder = tmp_path / f"cloud{len(made)}"
        folder.mkdir()
        made.append(Cloud(folder, hosts, options, files, **sections))
        return made[-1]

    yield make
    for cloud in made:
        cloud.close()
