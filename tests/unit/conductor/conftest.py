# SPDX-License-Identifier: Apache-2.0
"""Clouds that are gone when a test is over."""

import pytest
from tests.flow.whole_cloud import WholeCloud


@pytest.fixture
def make_whole_cloud(tmp_path):
    made = []

    def make(hosts=("a", "b", "c"), **more):
        folder = tmp_path / f"cloud{len(made)}"
        folder.mkdir()
        made.append(WholeCloud(folder, hosts, **more))
        return made[-1]

    yield make
    for cloud in made:
        cloud.close()


@pytest.fixture
def cloud(make_whole_cloud):
    return make_whole_cloud()
