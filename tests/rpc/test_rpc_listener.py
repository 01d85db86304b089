# SPDX-License-Identifier: Apache-2.0
"""Listeners for notifications get the types they ask for, in order; with a pool they take nothing from others."""

import threading
import time

import pytest
from tests.rpc.raw import envelope, speak

from roost.messages.in_process import InProcessTransport

ON = "[oslo_messaging_notifications]\ndriver = messagingv2\n"
START, END = "scheduler.select_destinations.start", "scheduler.select_destinations.end"


class Heard(list):
    """Notifications that a listener got."""

    def __init__(self):
        super().__init__()
        self._changed = threading.Condition()

    def append(self, each):
        with self._changed:
            super().append(each)
            self._changed.notify_all()

    def wait_for(self, count):
        with self._changed:
            assert self._changed.wait_for(lambda: len(self) >= count, timeout=20), list(self)
        return [(each.event_type, each.priority, each.payload) for each in self]


@pytest.fixture(params=["in process", "broker"])
def transport(request):
    return InProcessTransport() if request.param == "in process" else request.getfixturevalue("connect")(ON)


@pytest.fixture
def listen(transport, topic):
    """Starts listeners, which end with the test."""
    started = []

    def start(heard, *event_types, pool=""):
        listener = transport.listen(topic, event_types, heard.append, pool)
        listener.start()
        started.append(listener)
        return listener

    yield start
    for each in started:
        each.stop()
        each.wait()


def test_a_listener_gets_the_types_it_asks_for_in_order(transport, topic, context, listen):
    heard = Heard()
    listener = listen(heard, START, END)
    assert listener.is_connected
    notifier = transport.notifier("nova-scheduler:host1", [topic])
    for number in range(20):
        notifier.info(context, START, {"number": number})
        notifier.info(context, "flavor.create", {})
    notifier.error(context, END, {"why": "no host"})
    expected = [(START, "INFO", {"number": number}) for number in range(20)]
    assert heard.wait_for(21) == [*expected, (END, "ERROR", {"why": "no host"})]
    first = heard[0]
    assert (first.topic, first.publisher_id, first.context.request_id) == (topic, "nova-scheduler:host1", "req-1")
    assert first.timestamp.startswith("20")
    listener.stop()
    assert not listener.is_connected


def test_with_a_pool_other_listeners_lose_nothing(broker, connect, topic, context):
    transport, own, shared = connect(ON), Heard(), Heard()
    listeners = [
        transport.listen(topic, [START], own.append, f"{topic}-roost"),
        transport.listen(topic, [START], shared.append, ""),
    ]
    for each in listeners:
        each.start()
    notifier = transport.notifier("nova-scheduler:host1", [topic])
    for number in range(10):
        notifier.info(context, START, {"number": number})
    expected = [(START, "INFO", {"number": number}) for number in range(10)]
    assert own.wait_for(10) == expected
    assert shared.wait_for(10) == expected
    for each in listeners:
        each.stop()
        each.wait()


def test_what_is_no_notification_is_dropped(broker, connect, topic, context, caplog):
    transport, heard = connect(ON), Heard()
    listener = transport.listen(topic, [START], heard.append, "")
    listener.start()
    inner = {"event_type": START, "publisher_id": "x", "priority": "INFO", "payload": ["no", "object"]}
    with speak(broker) as raw:
        for body in ("{", envelope(inner)):
            raw.publish(f"{topic}.info", body)
    transport.notifier("nova-scheduler:host1", [topic]).info(context, START, {"a": 1})
    assert heard.wait_for(1) == [(START, "INFO", {"a": 1})]
    give_up = time.monotonic() + 5
    while "its payload is no JSON object" not in caplog.text:
        assert time.monotonic() < give_up
        time.sleep(0.02)
    listener.stop()
    listener.wait()


def test_at_the_stop_what_was_not_begun_stays_in_the_queue(broker, connect, topic, context):
    transport, first, second = connect(ON), Heard(), Heard()
    has_begun, may_go_on = threading.Event(), threading.Event()

    def take(notification):
        first.append(notification)
        has_begun.set()
        assert may_go_on.wait(20)

    listener = transport.listen(topic, [START], take, "")
    listener.start()
    notifier = transport.notifier("nova-scheduler:host1", [topic])
    for number in range(40):
        notifier.info(context, START, {"number": number})
    assert has_begun.wait(20)
    stopping = threading.Thread(target=listener.stop)
    stopping.start()
    stopping.join(0.5)
    may_go_on.set()
    stopping.join()
    listener.wait()
    assert first.wait_for(1) == [(START, "INFO", {"number": 0})]  # and no other was begun
    following = transport.listen(topic, [START], second.append, "")
    following.start()
    assert second.wait_for(39) == [(START, "INFO", {"number": number}) for number in range(1, 40)]
    following.stop()
    following.wait()


def test_a_listener_takes_one_notification_from_a_queue_that_piled_up(broker, connect, topic, context):
    unlimited = "[oslo_messaging_rabbit]\nrabbit_qos_prefetch_count = 0\n"
    transport, heard, may_go_on = connect(ON + unlimited), Heard(), threading.Event()
    listener = transport.listen(topic, [START], lambda each: (heard.append(each), may_go_on.wait(20)), "")
    listener.start()
    notifier = transport.notifier("nova-scheduler:host1", [topic])
    for number in range(200):
        notifier.info(context, START, {"number": number})
    heard.wait_for(1)
    time.sleep(1)
    in_memory = len(listener._server.listener._poll_style_listener.incoming)
    in_memory += listener._server._work_executor._work_queue.qsize()
    may_go_on.set()
    assert in_memory <= 2
    heard.wait_for(200)
    listener.stop()
    listener.wait()
