# SPDX-License-Identifier: Apache-2.0
"""What only holds within one process: speed, order, and that a missing server is known without waiting."""

import threading
import time

import pytest
from tests.rpc.conftest import Methods

from roost.errors import RpcTimeout, RpcUnreachable
from roost.messages.in_process import InProcessTransport
from roost.messages.interface import Notification


class Impatient:
    """A clock on which all waiting is over at once."""

    def wait(self, event, seconds):
        self.waited = seconds
        return event.is_set()


def test_a_call_takes_well_under_a_millisecond(in_process, serve, topic, context, methods):
    serve(in_process, methods)
    times = []
    for _ in range(300):
        begun = time.perf_counter()
        in_process.call(topic, "echo", "4.0", {"value": 1}, context, 10)
        times.append(time.perf_counter() - begun)
    assert sorted(times)[150] < 0.001


def test_a_topic_without_a_server_fails_without_waiting(in_process, context):
    with pytest.raises(RpcUnreachable, match="no service serves the topic nowhere"):
        in_process.call("nowhere", "echo", "4.0", {}, context, 60)
    in_process.cast("nowhere", "echo", "4.0", {}, context)


def test_waiting_is_done_by_the_clock_that_was_given(serve, topic, context, methods):
    clock = Impatient()
    transport = InProcessTransport(clock)
    serve(transport, methods)
    with pytest.raises(RpcTimeout, match="no answer within 1800 seconds"):
        transport.call(topic, "wait_for_gate", "4.0", {}, context, 1800)
    assert clock.waited == 1800


def test_in_the_callers_thread_things_happen_in_order_and_there(serve, topic, context):
    transport = InProcessTransport(in_callers_thread=True)
    threads = []
    methods = Methods()
    methods.methods["thread"] = lambda context: threads.append(threading.current_thread())
    serve(transport, methods)
    for number in range(3):
        transport.cast(topic, "note", "4.0", {"value": number}, context)
    transport.call(topic, "thread", "4.0", {}, context, 1)
    assert methods.seen == [0, 1, 2]
    assert threads == [threading.current_thread()]


def test_no_more_run_at_a_time_than_there_are_threads(serve, topic, context, methods):
    transport = InProcessTransport(threads=1)
    serve(transport, methods)
    transport.cast(topic, "wait_for_gate", "4.0", {}, context)
    assert methods.is_at_gate.wait(5)
    with pytest.raises(RpcTimeout):
        transport.call(topic, "echo", "4.0", {"value": 1}, context, 0.1)
    methods.gate.set()
    assert transport.call(topic, "echo", "4.0", {"value": 1}, context, 10) == 1


def test_what_the_server_gets_is_a_copy(in_process, serve, topic, context, methods):
    serve(in_process, methods)
    value = {"a": [1]}
    assert in_process.call(topic, "echo", "4.0", {"value": value}, context, 10) is not value


def test_a_server_can_be_started_again(in_process, topic, context, methods):
    server = in_process.serve(topic, "host1", [methods])
    for _ in range(2):
        server.start()
        assert in_process.call(topic, "who", "4.0", {}, context, 10) == "host1"
        server.stop()
        server.wait()
        with pytest.raises(RpcUnreachable):
            in_process.call(topic, "who", "4.0", {}, context, 10)


def test_notifications_reach_a_listener_on_every_topic(context):
    heard = []
    transport = InProcessTransport(on_notification=heard.append)
    notifier = transport.notifier("scheduler.host1", ["notifications", "more"])
    assert notifier.is_enabled
    notifier.info(context, "scheduler.select_destinations.start", {"request_spec": {}})
    first = Notification(
        "notifications", "INFO", "scheduler.host1", "scheduler.select_destinations.start", {}, context
    )
    assert heard[0] == Notification(**{**vars(first), "payload": {"request_spec": {}}})
    assert [each.topic for each in heard] == ["notifications", "more"]


def test_without_a_listener_notifications_cost_nothing(in_process, context):
    notifier = in_process.notifier("scheduler.host1", ["notifications"])
    assert not notifier.is_enabled
    notifier.error(context, "x", {"odd": object()})
