# SPDX-License-Identifier: Apache-2.0
"""Transports to a broker and servers on it, which are closed after their test."""

import itertools
import threading

import pytest

from roost.messages import broker as broker_connection
from roost.messages.context import RequestContext
from roost.messages.dispatcher import nova_failure
from roost.messages.in_process import InProcessTransport
from roost.messages.open_transport import open_transport
from roost.messages.options import RpcOptions

NUMBERS = itertools.count(1)


class Methods:
    """An endpoint. `seen` is what was asked of it, `gate` holds up `wait_for_gate`."""

    def __init__(self, version="4.5", name=""):
        self.version = version
        self.name = name
        self.seen = []
        self.has_seen = threading.Condition()
        self.gate = threading.Event()
        self.is_at_gate = threading.Event()
        found = (self.echo, self.who, self.note, self.context, self.refuse, self.fail, self.odd, self.wait_for_gate)
        self.methods = {method.__name__: method for method in (*found, self.tidy_up_later, self.note_patience)}

    def echo(self, context, value):
        return value

    def who(self, context):
        self.note(context, "who")
        return self.name

    def note(self, context, value):
        with self.has_seen:
            self.seen.append(value)
            self.has_seen.notify_all()

    def context(self, context):
        return context.to_dict()

    def refuse(self, context):
        raise nova_failure("NoValidHost", "No valid host was found. None fits.", reason="None fits.")

    def fail(self, context):
        raise KeyError("something")

    def odd(self, context):
        return {"odd": object()}

    def wait_for_gate(self, context):
        self.is_at_gate.set()
        assert self.gate.wait(20)
        return "through"

    def tidy_up_later(self, context, is_refused):
        context.when_answered(lambda: self.gate.wait(20))
        context.when_answered(lambda: 1 / 0)
        context.when_answered(lambda: self.note(context, "tidied up"))
        return self.refuse(context) if is_refused else "answered"

    def note_patience(self, context):
        self.note(context, context.patience)

    def wait_until_seen(self, *values):
        with self.has_seen:
            assert self.has_seen.wait_for(lambda: self.seen == list(values), 10), self.seen


@pytest.fixture(autouse=True)
def _stops_soon(monkeypatch):
    """Servers and transports notice soon that they are closed: about a hundred tests wait for that."""
    monkeypatch.setattr(broker_connection, "POLL_SECONDS", 0.02)


@pytest.fixture
def connect(broker, tmp_path):
    """Opens transports to the broker, with options and a config file, and closes them after the test."""
    opened = []

    def open_one(config="", **options):
        file = tmp_path / f"{len(opened)}.conf"
        file.write_text(config)
        opened.append(open_transport(RpcOptions(transport_url=broker.address(), **options), [file]))
        return opened[-1]

    yield open_one
    for transport in opened:
        transport.close()


@pytest.fixture
def in_process():
    made = InProcessTransport()
    yield made
    made.close()


@pytest.fixture(params=["in-process", "rabbit"])
def transport(request):
    if request.param == "rabbit":
        return request.getfixturevalue("connect")()
    return request.getfixturevalue("in_process")


@pytest.fixture
def topic():
    """A queue that no other test knows."""
    return f"scheduler_{next(NUMBERS)}"


@pytest.fixture
def serve(topic):
    """Starts servers on the topic, and stops them after the test."""
    started = []

    def start_one(transport, *endpoints, name="host1"):
        server = transport.serve(topic, name, endpoints)
        server.start()
        started.append(server)
        return server

    yield start_one
    for server in started:
        server.stop()
        server.wait()


@pytest.fixture
def methods():
    made = Methods(name="host1")
    yield made
    made.gate.set()


@pytest.fixture
def context():
    return RequestContext.new("req-1", "user", "project")
