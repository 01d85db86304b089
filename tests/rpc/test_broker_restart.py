# SPDX-License-Identifier: Apache-2.0
"""A broker that dies, stays away and comes back: callers are told in a line, servers and callers find it again."""

import threading
import time

import pytest
from tests.rpc.conftest import Methods

from roost.errors import RpcTimeout, RpcUnreachable
from roost.messages import broker as roost_broker
from roost.messages import broker_server as serving
from roost.messages.open_transport import open_transport
from roost.messages.options import RpcOptions


def wait_until(is_so, seconds=15.0):
    give_up = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < give_up, "waited in vain"
        time.sleep(0.02)


class Caller(threading.Thread):
    """Asks again and again until it is told to stop; keeps what it got for what it asked."""

    def __init__(self, ask):
        super().__init__(daemon=True)
        self.ask = ask
        self.answered, self.failed = [], []
        self.is_over = threading.Event()

    def run(self):
        number = 0
        while not self.is_over.is_set():
            number += 1
            try:
                assert self.ask(number) == number
                self.answered.append(number)
            except (RpcTimeout, RpcUnreachable) as error:
                self.failed.append((number, error))


@pytest.fixture
def mortal(broker):
    """A broker that may be killed: the next test finds it alive."""
    yield broker
    if broker.process.poll() is not None:
        broker.start_again()


def test_broker_dies_under_load_and_comes_back(mortal, connect, serve, topic, context, methods, monkeypatch):
    monkeypatch.setattr(serving, "START_SECONDS", 0.2)
    first, second = Methods(name="a"), Methods(name="b")
    servers = [serve(connect(), first, name="a"), serve(connect(), second, name="b")]
    leaving = connect()
    stopped = leaving.serve(f"{topic}_idle", "c", [Methods()])
    stopped.start()
    asking = connect("[oslo_messaging_notifications]\ndriver = messagingv2\n")
    monkeypatch.setattr(asking, "_delivery_seconds", 0.3)
    notifier = asking.notifier("scheduler.host1", ["notifications"])

    def ask(number):
        return asking.call(topic, "echo", "4.0", {"value": number}, context, 20, 3)

    callers = [Caller(ask) for _ in range(3)]
    for caller in callers:
        caller.start()
    wait_until(lambda: all(len(caller.answered) > 5 for caller in callers))

    mortal.kill()
    wait_until(lambda: not any(server.is_connected for server in servers))
    begun = time.monotonic()
    with pytest.raises(RpcUnreachable, match=r"echo on .*: the broker cannot be reached.*transport_url"):
        asking.call(topic, "echo", "4.0", {"value": 1}, context, 60)
    notifier.info(context, "scheduler.select_destinations.start", {})
    assert time.monotonic() - begun < 3
    stopped.stop()
    stopped.wait()
    assert time.monotonic() - begun < 8, "a server stops also where its broker is away"
    late = serve(connect(), Methods(name="d"), name="d")
    assert not late.is_connected
    wait_until(lambda: all(caller.failed for caller in callers))
    monkeypatch.setattr(asking, "_delivery_seconds", roost_broker.DELIVERY_SECONDS)

    mortal.start_again()
    wait_until(lambda: all(server.is_connected for server in [*servers, late]))
    before = [len(caller.answered) for caller in callers]
    wait_until(lambda: all(len(c.answered) > count + 5 for c, count in zip(callers, before, strict=True)), 10)
    for caller in callers:
        caller.is_over.set()
    for caller in callers:
        caller.join(30)
        assert all(str(error).count("\n") == 0 for _, error in caller.failed)


@pytest.mark.parametrize("address", ["rabbit://guest:guest@127.0.0.1:1/", "rabbit://guest:wrong@127.0.0.1:{port}/"])
def test_a_broker_that_cannot_be_used_is_one_line_without_the_password(broker, context, address, monkeypatch):
    monkeypatch.setattr(roost_broker, "DELIVERY_SECONDS", 0.1)
    transport = open_transport(RpcOptions(transport_url=address.format(port=broker.port)))
    monkeypatch.setattr(transport, "_delivery_seconds", 0.1)
    with pytest.raises(RpcUnreachable, match="the broker cannot be reached") as raised:
        transport.call("scheduler", "echo", "4.0", {}, context, 10)
    assert "wrong" not in str(raised.value)
    assert "\n" not in str(raised.value)
    transport.close()


def test_a_server_that_the_broker_refuses_asks_again_until_it_is_let_in(broker, topic, context, monkeypatch, caplog):
    monkeypatch.setattr(serving, "START_SECONDS", 0.2)
    monkeypatch.setattr(serving, "RETRY_SECONDS", 0.2)
    address = broker.address().replace("guest:guest", "late:secret")
    transport = open_transport(RpcOptions(transport_url=address))
    server = transport.serve(topic, "host1", [Methods(name="host1")])
    server.start()
    wait_until(lambda: "does not let us listen" in caplog.text)
    assert not server.is_connected
    broker.control("add_user", "late", "secret")
    broker.control("set_permissions", "late", ".*", ".*", ".*")
    wait_until(lambda: server.is_connected)
    assert transport.call(topic, "who", "4.5", {}, context, timeout=10) == "host1"
    server.stop()
    server.wait()
    transport.close()


def test_a_server_that_is_never_let_in_can_be_stopped(broker, topic, monkeypatch, caplog):
    monkeypatch.setattr(serving, "START_SECONDS", 0.2)
    transport = open_transport(RpcOptions(transport_url=broker.address().replace("guest:guest", "guest:wrong")))
    server = transport.serve(topic, "host1", [Methods()])
    server.start()
    wait_until(lambda: "does not let us listen" in caplog.text)
    assert "guest:wrong" not in caplog.text
    server.stop()
    server.wait()
    transport.close()
