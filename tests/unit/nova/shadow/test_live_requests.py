# SPDX-License-Identifier: Apache-2.0
"""Requests of the live scheduler, as nova 34's own notifications tell of them (tests/wire/recorded)."""

import datetime
import json
import threading
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.flow.cloud import TurnedClock

from roost.errors import BadInput
from roost.messages.context import RequestContext
from roost.messages.interface import Notification
from roost.messages.objects.notifications import request_from_payload
from roost.nova.shadow import live_requests
from roost.nova.shadow.live_requests import EVENT_TYPES, LiveRequests
from roost.nova.shadow.trial import TrialDecision

LINES = [
    json.loads(line)
    for line in (Path(__file__).parents[3] / "wire/recorded/notifications.jsonl").read_text().splitlines()
]
START, END, CREATED, FAILED = EVENT_TYPES


def notification(line):
    context = RequestContext.new(line["request_id"])
    parts = (line["publisher_id"], line["event_type"], line["payload"], context, line["timestamp"])
    return Notification("versioned_notifications", line["priority"], *parts)


def lines_of(case, *event_types):
    return [each for each in LINES if each["case"] == case and each["event_type"] in (event_types or EVENT_TYPES)]


class Watch:
    """Live requests of a scheduler that chooses one host for everything, and what was noted."""

    def __init__(self, host="host1"):
        self.host, self.error, self.asked, self.found, self.noted = host, None, [], {}, []
        self.clock, self.were_complete = TurnedClock(), []
        self.live = LiveRequests(self.decide, self.find_hosts, self.noted.append, self.clock, 60)

    def decide(self, notification, payload, is_complete):
        if self.error:
            raise self.error
        self.were_complete.append(is_complete)
        spec, request_id = request_from_payload(payload), notification.context.request_id
        return TrialDecision(
            *(request_id, spec.instance_uuid, spec.num_instances, self.clock.now()),
            *(self.host, "none fits", None, 200.0, 3000.0),
        )

    def find_hosts(self, uuids):
        self.asked.append(list(uuids))
        return {uuid: self.found[uuid] for uuid in uuids if uuid in self.found}

    def take(self, *lines, age=0.0):
        for line in lines:
            made_at = datetime.datetime.fromisoformat(line["timestamp"]).replace(tzinfo=datetime.UTC)
            self.clock.now = lambda at=made_at: at + datetime.timedelta(seconds=age)
            self.live.take(notification(line))

    def verdicts(self):
        return [(each.verdict, each.nova_host) for each in self.noted]


@pytest.fixture
def watch():
    return Watch()


def test_the_host_is_the_first_compute_that_builds(watch):
    watch.take(*lines_of("boot"))
    (found,) = watch.noted
    assert (found.verdict, found.roost_host, found.nova_host) == ("other", "host1", found.nova_host)
    assert found.nova_host.startswith("host")
    assert 10_000 < found.nova_us < 2_000_000
    assert not watch.asked


def test_without_notifications_of_computes_the_host_is_read_from_the_instance(watch):
    watch.take(*lines_of("boot", START, END))
    watch.live.settle()
    assert not watch.noted
    (uuid,) = watch.asked[0]
    watch.found[uuid] = "host1"
    watch.live.settle()
    assert watch.verdicts() == [("same", "host1")]
    watch.live.settle()
    assert len(watch.asked) == 2


def test_a_lost_end_costs_only_the_time(watch):
    watch.take(*lines_of("boot", START, CREATED))
    assert not watch.noted
    watch.live.settle()
    assert [each.nova_us for each in watch.noted] == [None]
    assert not watch.asked


def test_an_end_that_comes_after_the_host(watch):
    watch.take(*lines_of("boot", START), *lines_of("boot", CREATED), *lines_of("boot", END))
    assert [each.nova_us is not None for each in watch.noted] == [True]


def test_what_does_not_become_known_is_unknown(watch):
    watch.take(*lines_of("boot", START, END))
    watch.clock.seconds += 59
    watch.live.settle()
    assert not watch.noted
    watch.clock.seconds += 1
    watch.live.settle()
    assert [(each.verdict, each.why) for each in watch.noted] == [
        ("unknown", "nova's host did not become known within 60 s")
    ]


def test_what_is_waiting_at_the_end_is_unknown(watch):
    watch.take(*lines_of("boot", START))
    watch.live.close()
    assert watch.noted[0].why == "shadow mode ended before nova's host became known"


def test_the_end_waits_for_a_notification_that_is_being_handled(watch):
    watch.take(*lines_of("boot", START))
    with watch.live._lock:
        ending = threading.Thread(target=watch.live.close)
        ending.start()
        ending.join(0.1)
        watch.live._pending["late"] = next(iter(watch.live._pending.values()))
    ending.join()
    assert [each.verdict for each in watch.noted] == ["unknown", "unknown"]


def test_several_servers_in_one_request_are_one_record(watch):
    watch.take(*lines_of("several"))
    assert [(each.instances, each.nova_us is not None) for each in watch.noted] == [(4, True)]


@pytest.mark.parametrize(("host", "verdict"), [("host1", "nova_failed"), (None, "both_no_host")])
def test_a_request_without_a_host(host, verdict):
    watch = Watch(host)
    watch.take(*lines_of("group too big"))
    (found,) = watch.noted  # of five instances in one request each has its own error
    assert found.verdict == verdict
    assert found.why.startswith("NoValidHost: No valid host was found." if host else "none fits")


@pytest.mark.parametrize("case", ["too big", "named host"])
@pytest.mark.parametrize(("host", "verdict"), [("host1", "unknown"), (None, "both_no_host")])
def test_where_placement_has_no_candidate_nova_does_not_tell_enough(case, host, verdict):
    watch = Watch(host)
    watch.take(*lines_of(case))
    (found,) = watch.noted
    assert (found.verdict, found.roost_host, watch.were_complete) == (verdict, host, [False])
    if host:
        assert found.why.startswith("not comparable: placement had no candidate")
        assert found.why.endswith("NoValidHost: No valid host was found.")


def test_a_build_that_fails_before_its_host_is_known(watch):
    watch.take(*lines_of("boot", START, END))
    uuid = watch.live._pending.copy().popitem()[0]
    failure = json.loads(json.dumps(lines_of("too big", FAILED)[0]))
    failure["payload"]["nova_object.data"]["request_spec"]["nova_object.data"]["instance_uuid"] = uuid
    watch.take(failure)
    assert watch.noted[0].verdict == "unknown"
    assert watch.noted[0].why.startswith("nova chose a host, and the build failed before it was known which: NoValid")


def test_a_build_that_fails_on_a_known_host_was_decided(watch):
    watch.take(*lines_of("boot", START, CREATED))  # its end is late, or lost
    (host,) = [each.nova_host for each in watch.live._pending.values()]
    watch.take(failure_of(lines_of("boot", START)[0]))
    assert watch.verdicts() == [("other", host)]


def failure_of(start):
    """The recorded failure of another request, as that of this one."""
    failure = json.loads(json.dumps(lines_of("too big", FAILED)[0]))
    uuid = start["payload"]["nova_object.data"]["instance_uuid"]
    failure["payload"]["nova_object.data"]["request_spec"]["nova_object.data"]["instance_uuid"] = uuid
    return failure | {"request_id": start["request_id"]}


def test_a_failure_that_overtakes_its_start_is_one_record_and_no_move(watch):
    start = lines_of("boot", START)[0]
    watch.take(failure_of(start), start)
    assert [each.verdict for each in watch.noted] == ["unknown"]
    assert not watch.live._pending
    watch.take(start | {"request_id": "req-another"})
    assert [each.verdict for each in watch.noted] == ["unknown", "move"]


@pytest.mark.parametrize("case", ["resize", "migrate", "live migrate", "evacuate", "rebuild", "unshelve"])
def test_moves_are_counted_and_not_compared(watch, case):
    boots, moves = lines_of("boot", START), lines_of(case)
    watch.take(*boots, *moves)
    assert Counter(each.verdict for each in watch.noted) == {
        "move": len([m for m in moves if m["event_type"] == START])
    }


def test_another_request_for_an_instance_is_a_move(watch):
    watch.take(*lines_of("boot"), *lines_of("boot", START))
    assert [each.verdict for each in watch.noted] == ["other", "move"]


def test_a_request_that_cannot_be_decided_says_why(watch):
    watch.error = BadInput("nova's API database has no request of the instance")
    watch.take(*lines_of("boot"))
    (found,) = watch.noted
    assert (found.verdict, found.why) == (
        *("unknown", "not comparable: nova's API database has no request of the instance"),
    )
    assert (found.roost_us, found.ties) == (None, ())


def test_old_notifications_are_not_decided(watch):
    watch.take(*lines_of("boot"), age=1.5)
    assert [each.why for each in watch.noted] == [
        "not comparable: the notification is 1.5 s old: shadow mode is behind, or the clocks differ"
    ]


def test_notifications_from_the_future_are_not_decided(watch):
    watch.take(*lines_of("boot"), age=-1.5)
    assert [each.why for each in watch.noted] == [
        "not comparable: the notification is from 1.5 s ahead: the clocks differ"
    ]


def test_what_is_not_understood_is_logged(watch, monkeypatch):
    said = []
    logger = SimpleNamespace(warning=lambda event, **facts: said.append(facts["why"]))
    monkeypatch.setattr(live_requests, "LOG", logger)
    line = lines_of("boot", START)[0]
    watch.take({**line, "payload": {"nova_object.name": "Odd"}})
    assert said == ["payload: is no RequestSpecPayload"]
    assert not watch.noted


def test_the_number_of_waiting_requests_is_bounded(watch, monkeypatch):
    monkeypatch.setattr(live_requests, "MOST_PENDING", 1)
    monkeypatch.setattr(live_requests, "MOST_REMEMBERED", 1)
    watch.take(*lines_of("boot", START), *lines_of("several", START))
    assert [(each.instances, each.why) for each in watch.noted] == [
        (1, "too many requests are waiting for their host")
    ]
