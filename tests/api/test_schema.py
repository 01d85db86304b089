# SPDX-License-Identifier: Apache-2.0
"""Generated requests: none is answered with a 5xx, or with what the published OpenAPI document does not say."""

import pytest
from tests.api.cloud import ApiCloud
from tests.api.generated_requests import known_values, operations, try_operation

from roost.api.routes import ROUTES

EXAMPLES = 4
SEED = 21
NAMES = [f"{each.method.lower()} {each.path}" for each in ROUTES if each.media != "text/event-stream"]


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    """A cloud of its own: generated requests delete and disable what they find."""
    cloud = ApiCloud(tmp_path_factory.mktemp("generated"))
    yield cloud, operations(cloud), known_values(cloud)
    cloud.stop()


def test_every_route_is_published(target):
    _, published, _ = target
    assert set(published) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_generated_requests_are_answered_as_published(target, name):
    cloud, published, known = target
    try_operation(cloud, published[name], known, EXAMPLES, SEED)
