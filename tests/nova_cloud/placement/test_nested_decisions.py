# SPDX-License-Identifier: Apache-2.0
"""Decisions about resources that only children of a host's provider have: made, recorded, and asked about later."""

import pytest
from tests.nova_cloud.nested_cloud import PLAIN, VGPU, NestedCloud

from roost.library import Scheduler
from roost.questions.past_decision import PastDecision, fleet_seen_by
from roost.records.decisions import DecisionStore, RecordedState
from roost.scheduler.full_scan import FullScanEngine


@pytest.fixture
def nested(placement, cloud, tmp_path):
    made = NestedCloud(placement, cloud, tmp_path, hosts=40, children=8)
    yield made
    made.close()


def read_back(nested):
    """The recorded decisions, the earliest first, each as a client gets it with its state."""
    nested.kept.recorder.flush()
    store = DecisionStore(nested.kept._file_engine, nested.clock.now())
    records = [store.get(row.id) for row in reversed(store.list_decisions())]
    return [(each, store.read_state(each).to_json()) for each in records]


def test_requests_after_one_for_a_gpu_of_a_child_are_decided(nested):
    """D23: a GPU changed a column that the table does not have, at which the next request failed."""
    asked = [PLAIN, VGPU, PLAIN, PLAIN, VGPU, VGPU, PLAIN]
    placed = [nested.place(each) for each in asked]
    found = read_back(nested)
    assert [(each.data["servers"], each.data["selections"][0][0]) for each, _ in found] == [
        ([uuid], host) for uuid, host in placed
    ]
    assert [dict(each.request.flavor.extra_specs) for each, _ in found] == asked
    for record, state in found:
        sent = {"id": record.id, "data": record.data, "state": state}
        asked_again = PastDecision(sent, Scheduler(fleet_seen_by(sent), engine=FullScanEngine))
        assert asked_again.explain().hosts == 40
    booked = [RecordedState(**state).restore().numbers["allocated:VCPU"].sum() for _, state in found]
    assert booked == [0, 1, 2, 3, 4, 5, 6]
