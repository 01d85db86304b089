# SPDX-License-Identifier: Apache-2.0
"""Requests and replies on the broker, in the form that nova's own client writes and reads."""

import json
from math import inf

import pytest
from tests.rpc.conftest import Methods
from tests.rpc.raw import speak

from roost.messages.context import CallerPatience


@pytest.fixture
def raw(broker):
    with speak(broker) as opened:
        yield opened


@pytest.fixture
def served(connect, serve, methods):
    return serve(connect(), methods)


def opened(body):
    outer = json.loads(body)
    assert set(outer) == {"oslo.version", "oslo.message"}
    assert outer["oslo.version"] == "2.0"
    return json.loads(outer["oslo.message"])


@pytest.mark.usefixtures("served")
class TestReplies:
    def test_a_result_comes_in_novas_form(self, raw, topic):
        raw.call(topic, "echo", value=[1, {"a": None}])
        reply = opened(raw.reply())
        unique = reply.pop("_unique_id")
        assert len(unique) == 32
        assert reply == {"result": [1, {"a": None}], "failure": None, "ending": True, "_msg_id": "0123456789abcdef"}

    def test_no_valid_host_comes_in_the_form_that_novas_client_makes_its_own_of(self, raw, topic):
        raw.call(topic, "refuse")
        reply = opened(raw.reply())
        assert (reply["result"], reply["ending"]) == (None, True)
        failure = json.loads(reply["failure"])
        trace = failure.pop("tb")
        assert failure == {
            "class": "NoValidHost",
            "module": "nova.exception",
            "message": "No valid host was found. None fits.",
            "args": ["No valid host was found. None fits."],
            "kwargs": {"reason": "None fits.", "code": 500},
        }
        assert trace == ["nova.exception.NoValidHost: No valid host was found. None fits.\n"]

    def test_an_unknown_version_has_the_name_that_novas_clients_know(self, raw, topic):
        raw.call(topic, "echo", version="9.0")
        failure = json.loads(opened(raw.reply())["failure"])
        assert (failure["module"], failure["class"]) == ("oslo_messaging.rpc.dispatcher", "UnsupportedVersion")

    def test_an_unexpected_error_has_its_traceback(self, raw, topic):
        raw.call(topic, "fail")
        failure = json.loads(opened(raw.reply())["failure"])
        assert (failure["module"], failure["class"], failure["args"]) == ("builtins", "KeyError", ["something"])
        assert failure["tb"][0] == "Traceback (most recent call last):\n"

    def test_the_context_of_a_message_is_understood(self, raw, topic):
        raw.call(topic, "context")
        result = opened(raw.reply())["result"]
        assert (result["request_id"], result["user_id"], result["is_admin"]) == ("req-raw", "ann", False)


def test_a_long_call_gets_heartbeats_before_its_answer(connect, serve, topic, methods, raw):
    serve(connect(), methods)
    message = {"method": "wait_for_gate", "version": "4.0", "args": {}, "_timeout": 1}
    sender = {"_msg_id": "abc", "_reply_q": raw.replies.name, "_unique_id": "u1"}
    raw.publish(topic, json.dumps({**message, **sender}))  # without an envelope, as before Havana
    sign = opened(raw.reply())
    assert (sign["result"], sign["failure"], sign["ending"]) == (None, None, False)
    methods.gate.set()
    last = opened(raw.reply())
    while not last["ending"]:
        last = opened(raw.reply())
    assert last["result"] == "through"


def test_a_request_of_ours_is_what_novas_servers_read(connect, broker, topic, context, serve):
    """Seen by a server that is none of ours."""
    with speak(broker) as raw:
        queue = raw.replies
        exchange = raw.channel.exchange_declare
        exchange("nova", "topic", durable=False, auto_delete=False)
        raw.channel.queue_bind(queue.name, "nova", topic)
        connect().cast(topic, "note", "4.2", {"value": 1}, context)
        message = opened(raw.reply())
    assert len(message.pop("_unique_id")) == 32
    assert message == {
        "method": "note",
        "version": "4.2",
        "args": {"value": 1},
        "_context_request_id": "req-1",
        "_context_user_id": "user",
        "_context_project_id": "project",
        "_context_is_admin": False,
    }


def test_two_processes_worth_of_transports_share_the_queue(connect, serve, topic, context):
    serve(connect(), Methods(name="a"), name="a")
    serve(connect(), Methods(name="b"), name="b")
    caller = connect()
    found = [caller.call(topic, "who", "4.0", {}, context, 10) for _ in range(10)]
    assert sorted(found) == ["a"] * 5 + ["b"] * 5


def test_a_message_that_was_in_the_queue_before_the_server_may_be_of_any_age(connect, serve, topic, methods, broker):
    transport = connect()
    earlier = transport.serve(topic, "host1", [methods])
    earlier.start()  # makes the queue, which stays
    earlier.stop()
    earlier.wait()
    with speak(broker) as raw:
        raw.call(topic, "note_patience")
        serve(transport, methods)
        methods.wait_until_seen(CallerPatience(60, inf))
