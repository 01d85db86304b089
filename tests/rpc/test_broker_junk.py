# SPDX-License-Identifier: Apache-2.0
"""Any client of the broker can put anything into the queue: the server logs that in one line and goes on."""

import bz2
import json
import pickle
import zlib

import pytest
from tests.rpc.raw import envelope, speak

from roost.errors import RpcUnreachable
from roost.messages.context import MAX_BYTES

DEEP = "[" * 100_000 + "]" * 100_000
BOMB = zlib.compress(b" " * (MAX_BYTES * 20))
NESTED = {"a": {}}
for _ in range(70):
    NESTED = {"a": NESTED}


class Evil:
    def __reduce__(self):
        return (print, ("this must not be run",))


DROPPED = {
    "no JSON": (b"{not json", {}),
    "no UTF-8": (b'"\xff\xfe"', {}),
    "nothing at all": (b"", {}),
    "a number": (b"5", {}),
    "a list": (b"[1, 2]", {}),
    "NaN": (b'{"method": "note", "args": {"value": NaN}}', {}),
    "20 MB": (b'{"method": "' + b"x" * 20_000_000 + b'"}', {}),
    "very deep": (DEEP.encode(), {}),
    "a bit too deep": (json.dumps({"method": "note", "args": NESTED}).encode(), {}),
    "deep within its envelope": (json.dumps({"oslo.version": "2.0", "oslo.message": DEEP}).encode(), {}),
    "an envelope of the future": (json.dumps({"oslo.version": "3.0", "oslo.message": "{}"}).encode(), {}),
    "an envelope with no text": (json.dumps({"oslo.version": "2.0", "oslo.message": 5}).encode(), {}),
    "no JSON in its envelope": (json.dumps({"oslo.version": "2.0", "oslo.message": "<x/>"}).encode(), {}),
    "a list in its envelope": (envelope([]).encode(), {}),
    "an odd sender": (envelope({"method": "note", "_msg_id": 5}).encode(), {}),
    "an odd queue": (envelope({"method": "note", "_reply_q": ["x"]}).encode(), {}),
    "an odd timeout": (envelope({"method": "note", "_timeout": "soon"}).encode(), {}),
    "an odd id": (envelope({"method": "note", "_unique_id": {}}).encode(), {}),
    "a context that would be self": (envelope({"method": "note", "_context_self": 1}).encode(), {}),
    "pickle": (pickle.dumps(Evil()), {"content_type": "application/x-python-serialize"}),
    "YAML": (b"!!python/object/apply:print [x]", {"content_type": "application/x-yaml"}),
    "plain text": (b"hello", {"content_type": "text/plain"}),
    "no type": (b"{}", {"content_type": None}),
    "a bomb": (BOMB, {"headers": {"compression": "application/x-gzip"}}),
    "broken compression": (b"x", {"headers": {"compression": "application/x-bz2"}}),
    "unknown compression": (b"x", {"headers": {"compression": "application/x-lzma"}}),
}
REFUSED = {
    "nothing in it": {},
    "no method": {"args": {}},
    "a method that is a number": {"method": 5},
    "arguments that are a list": {"method": "note", "version": "4.0", "args": [1]},
    "arguments that are null": {"method": "note", "version": "4.0", "args": None},
    "a version that is a number": {"method": "note", "version": 4, "args": {}},
    "a version of words": {"method": "note", "version": "four", "args": {}},
    "no version": {"method": "note", "args": {"value": 1}},
    "a namespace": {"method": "note", "version": "4.0", "namespace": "x", "args": {"value": 1}},
    "a context that is odd": {"method": "nothing", "version": "4.0", "_context_request_id": [1], "_context_user": 5},
}


@pytest.fixture
def served(connect, serve, methods):
    transport = connect()
    serve(transport, methods)
    return transport


@pytest.mark.parametrize(("body", "properties"), DROPPED.values(), ids=DROPPED)
def test_what_cannot_be_understood_is_dropped_with_one_line(
    broker, served, topic, methods, context, caplog, body, properties
):
    with speak(broker) as raw:
        raw.publish(topic, body, **properties)
        served.cast(topic, "note", "4.0", {"value": "after"}, context)
        methods.wait_until_seen("after")
    ours = [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]
    assert [(record.name, record.exc_info) for record in ours] == [("roost.messages.broker", None)]
    assert f"a message in the queue {topic} was dropped: " in ours[0].getMessage()
    assert len(ours[0].getMessage()) < 300


@pytest.mark.parametrize("message", REFUSED.values(), ids=REFUSED)
def test_what_is_no_request_is_refused_where_a_caller_waits(broker, served, topic, methods, context, caplog, message):
    with speak(broker) as raw:
        raw.publish(topic, envelope({**message, "_msg_id": "1", "_reply_q": raw.replies.name}))
        reply = json.loads(json.loads(raw.reply())["oslo.message"])
        assert json.loads(reply["failure"])["message"]
        assert served.call(topic, "echo", "4.0", {"value": 1}, context, 10) == 1
    ours = [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]
    assert [(record.name, record.exc_info) for record in ours] == [("roost.messages.dispatcher", None)]
    assert methods.seen == []


@pytest.mark.parametrize(
    ("compress", "name"), [(zlib.compress, "application/x-gzip"), (bz2.compress, "application/x-bz2")]
)
def test_a_compressed_message_is_read(broker, served, topic, methods, compress, name):
    body = compress(envelope({"method": "note", "version": "4.0", "args": {"value": "small"}}).encode())
    with speak(broker) as raw:
        raw.publish(topic, body, headers={"compression": name})
        methods.wait_until_seen("small")


def test_an_answer_whose_caller_is_gone_delays_no_other(broker, connect, serve, methods, topic, context):
    served = connect("[oslo_messaging_rabbit]\nkombu_missing_consumer_retry_timeout = 0\n")
    serve(served, methods)
    with speak(broker) as raw:
        for number in range(20):
            message = {"method": "echo", "version": "4.0", "args": {"value": number}}
            raw.publish(topic, envelope({**message, "_msg_id": str(number), "_reply_q": "reply_gone"}))
    assert served.call(topic, "echo", "4.0", {"value": 1}, context, 10) == 1


def test_after_a_request_that_no_queue_takes_the_next_is_confirmed_by_its_own(served, topic, context, monkeypatch):
    monkeypatch.setattr(served, "_delivery_seconds", 0.0)
    for number in range(3):
        with pytest.raises(RpcUnreachable, match="no service serves this topic"):
            served.call("nobody", "echo", "4.0", {"value": number}, context, 10)
        assert served.call(topic, "echo", "4.0", {"value": number}, context, 10) == number
