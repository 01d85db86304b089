# SPDX-License-Identifier: Apache-2.0
"""D23: whatever a watcher raises, a request by message to Roost's own cloud is answered and booked."""

import re

import pytest
from tests.failing_watchers import EVERYWHERE, OF_DECISIONS, OF_NOTIFICATIONS, failing
from tests.flow.cloud import CONTEXT, UUID, request, state_of

from roost.best_effort import SWALLOWED
from roost.errors import RemoteNoValidHost
from roost.nova.shadow.service import ShadowService
from roost.records.decisions import DecisionStore

HOSTS = {"a": {}, "b": {"total_usable_ram_mb": 16384}}
OPTIONS = {"notifications": {"notification_format": "both"}, "filter_scheduler": {"weight_classes": ["RAMWeigher"]}}
WATCHERS = (*EVERYWHERE, *OF_DECISIONS, *OF_NOTIFICATIONS)


@pytest.fixture
def cloud(make_cloud):
    made = make_cloud(HOSTS, OPTIONS)
    made.service()
    return made


def place(cloud, number, **more):
    ((chosen, *_),) = cloud.client().select_destinations(CONTEXT, request(**more), [UUID % number], True, True)
    return chosen.host


def refused(cloud, number):
    with pytest.raises(RemoteNoValidHost):
        place(cloud, number, memory_mb=10**6)
    return True


@pytest.mark.parametrize("watcher", WATCHERS)
def test_a_request_by_message_is_answered_and_booked(cloud, watcher):
    (service,) = cloud.services
    place(cloud, 1)
    with failing(watcher) as failure:
        assert [place(cloud, number) for number in (2, 3)] == ["a", "a"]
        assert refused(cloud, 4)
        cloud.clock.seconds += 1
        assert place(cloud, 5) == "a"  # after a refresh
        service._cloud.recorder.flush()
        service._monitor()
    assert failure.hits
    assert failure.swallowed or watcher == "writing of decisions"  # that is given up in the background
    assert cloud.held(*(UUID % number for number in range(1, 6))) == {UUID % n: ["a"] for n in (1, 2, 3, 5)}
    assert place(cloud, 6) == "a"
    service._monitor()
    shown = re.search(
        f'^roost_watcher_errors_total.watcher="{failure.label}". (.*)$', cloud.metrics.render().decode(), re.M
    )
    assert float(shown[1]) >= failure.swallowed
    assert service.unready() == []


@pytest.mark.parametrize("watcher", OF_DECISIONS)
def test_decisions_after_a_failure_of_their_record_can_be_asked_about(cloud, watcher):
    place(cloud, 1)
    with failing(watcher):
        place(cloud, 2)
        cloud.services[0]._cloud.recorder.flush()
    states = []
    for number in (3, 4):
        states.append(state_of(cloud.services[0].replica.table))
        place(cloud, number)
    cloud.services[0]._cloud.recorder.flush()
    store = DecisionStore(cloud.engine, cloud.clock.now())
    later = [store.get(row.id) for row in reversed(store.list_decisions())][-2:]
    assert [each.data["servers"] for each in later] == [[UUID % 3], [UUID % 4]]
    assert [state_of(store.read_state(each).restore()) for each in later] == states
    lost = b"roost_decisions_unrecorded_total 0.0" not in cloud.metrics.render()
    assert lost == (len(store.list_decisions()) < 4)


def test_options_are_reloaded_although_their_record_fails(cloud):
    before = SWALLOWED.counts().get("decision_record", 0)
    (service,) = cloud.services
    service._cloud.recorder.begin = lambda options: 1 / 0
    service.manager.reload(service.settings)
    assert SWALLOWED.counts()["decision_record"] == before + 1


def test_a_listener_that_fails_keeps_no_other_from_hearing(cloud):
    cloud.transport._listeners.insert(0, lambda notification: 1 / 0)
    place(cloud, 1)
    assert len(cloud.notifications) == 4  # start and end, in both formats


def test_a_request_in_shadow_mode_is_answered_although_its_report_fails(make_cloud, tmp_path):
    made = make_cloud(HOSTS, {"roost": {"shadow_report": str(tmp_path / "report")}})
    shadow, before = made.service(ShadowService), SWALLOWED.counts().get("shadow", 0)
    shadow._journal._write = lambda line: 1 / 0
    spec = {"num_instances": 1, "instance_type": {"vcpus": 1, "memory_mb": 64, "root_gb": 1, "ephemeral_gb": 0}}
    args = {"request_spec": spec, "filter_properties": {}, "instance_uuids": [UUID % 1]}
    answer = made.transport.call("scheduler_shadow", "select_destinations", "4.3", args, CONTEXT, timeout=30)
    assert answer[0]["host"] == "a"
    assert SWALLOWED.counts()["shadow"] == before + 1
