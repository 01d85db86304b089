# SPDX-License-Identifier: Apache-2.0
"""Notifications over a broker, and without one: they cost no request any time."""

import json
import logging
import time

import pytest
from tests.rpc.raw import speak

from roost.clock import SystemClock
from roost.messages.context import RequestContext
from roost.messages.notification_queue import NotificationQueue, QueuedNotifier
from roost.messages.open_transport import open_transport
from roost.messages.options import RpcOptions
from roost.messages.oslo import make_conf

ON = "[oslo_messaging_notifications]\ndriver = messagingv2\n"


@pytest.fixture
def nowhere(tmp_path):
    """Opens transports to a broker that is not there."""

    def open_one(config):
        file = tmp_path / "nova.conf"
        file.write_text(config)
        return open_transport(RpcOptions(transport_url="rabbit://127.0.0.1:1/"), [file])

    return open_one


def first_notification(broker, queue):
    with speak(broker) as raw:
        raw.channel.queue_declare(queue, durable=False, auto_delete=False)  # as the sender does, who may be later
        give_up = time.monotonic() + 10
        while (message := raw.channel.basic_get(queue, no_ack=True)) is None:
            assert time.monotonic() < give_up
            time.sleep(0.02)
        return json.loads(json.loads(message.body)["oslo.message"])


def test_a_notification_arrives_on_its_topic_without_secrets(broker, connect, topic):
    transport = connect(ON)
    context = RequestContext.new("req-1", "ann", "blue", auth_token="secret")
    notifier = transport.notifier("nova-scheduler:host1", [topic])
    notifier.info(context, "scheduler.select_destinations.start", {"nova_object.name": "RequestSpecPayload"})
    message = first_notification(broker, f"{topic}.info")
    assert message["publisher_id"] == "nova-scheduler:host1"
    assert message["event_type"] == "scheduler.select_destinations.start"
    assert message["priority"] == "INFO"
    assert message["payload"] == {"nova_object.name": "RequestSpecPayload"}
    assert message["_context_request_id"] == "req-1"
    assert "secret" not in json.dumps(message)


def test_an_error_has_the_priority_of_one(broker, connect, topic, context):
    connect(ON).notifier("scheduler.host1", [topic]).error(context, "scheduler.run_instance", {"state": "error"})
    assert first_notification(broker, f"{topic}.error")["priority"] == "ERROR"


@pytest.mark.parametrize("config", ["", "[oslo_messaging_notifications]\ndriver = noop\n"])
def test_off_by_default(nowhere, context, config):
    transport = nowhere(config)
    notifier = transport.notifier("scheduler.host1", ["notifications"])
    assert not notifier.is_enabled
    notifier.info(context, "x", {})
    transport.close()


def test_the_log_can_be_a_listener(nowhere, context, caplog):
    caplog.set_level(logging.INFO)
    transport = nowhere("[oslo_messaging_notifications]\ndriver = log\n")
    notifier = transport.notifier("scheduler.host1", ["notifications"])
    assert notifier.is_enabled
    notifier.info(context, "scheduler.select_destinations.end", {"a": 1})
    transport.close()
    assert any("scheduler.select_destinations.end" in record.getMessage() for record in caplog.records)


def test_a_broker_that_is_away_costs_nothing_but_notifications(context, tmp_path, caplog):
    file = tmp_path / "nova.conf"
    file.write_text(ON)
    conf = make_conf(RpcOptions(transport_url="rabbit://127.0.0.1:1/"), [file])
    sending = NotificationQueue(conf, SystemClock(), size=5)
    notifier = QueuedNotifier(sending, "scheduler.host1", ["notifications"])
    begun = time.monotonic()
    for number in range(20):
        notifier.info(context, "x", {"number": number})
    assert time.monotonic() - begun < 1
    assert notifier.dropped >= 14
    warnings = [record for record in caplog.records if "notifications dropped" in record.getMessage()]
    assert len(warnings) == 1, "once a minute"
    while not sending._queue.empty():  # its thread would log into the next test
        time.sleep(0.01)
    sending.close()


def test_a_payload_that_is_no_json_is_logged_in_a_line_and_not_sent(nowhere, context, caplog):
    transport = nowhere(ON)
    transport.notifier("scheduler.host1", ["notifications"]).info(context, "x", {"odd": object()})
    transport.close()
    assert "the payload of x cannot be sent" in caplog.text
