# SPDX-License-Identifier: Apache-2.0
"""D23: whatever a watcher raises, a request in a nova cloud is answered, and claimed in the real placement."""

from contextlib import ExitStack

import pytest
from tests.failing_watchers import failing
from tests.nova_cloud.nested_cloud import PLAIN, VGPU, NestedCloud
from tests.nova_cloud.small_cloud import node_uuid

from roost.errors import RemoteNoValidHost

WATCHERS = (
    ("counter", "handler of the log"),
    ("state of the table", "payload of a notification", "file of claims", "filter of the log", "histogram"),
    ("changes of the table", "notifier", "note of a claim"),
    ("encoding of a decision", "health of placement"),
)
"""Together, where none keeps another from being asked: each cloud takes a while to make."""


@pytest.fixture
def nested(placement, cloud, tmp_path):
    made = NestedCloud(placement, cloud, tmp_path, hosts=2, children=1)
    yield made
    made.close()


@pytest.mark.parametrize("watchers", WATCHERS, ids=", ".join)
def test_a_request_is_answered_and_claimed(nested, watchers):
    with ExitStack() as failing_now:
        failures = [failing_now.enter_context(failing(each, nested.health)) for each in watchers]
        placed = [nested.place(each) for each in (PLAIN, VGPU, PLAIN, VGPU)]
        with pytest.raises(RemoteNoValidHost):
            nested.place(VGPU)
        nested.kept.recorder.flush()
    assert all(each.hits for each in failures)
    assert all(each.swallowed for each in failures)
    for uuid, host in placed:
        assert nested.placement.held(uuid)[node_uuid(host)] == {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 5}
    taken = [provider for uuid, _ in placed for provider in nested.placement.held(uuid)]
    assert len({*taken}) == 4  # two hosts, and the GPU of each
    assert nested.place(PLAIN)
