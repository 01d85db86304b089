# SPDX-License-Identifier: Apache-2.0
"""The client over messages: every method of the interface reaches the conductor, every error comes back clear."""

import inspect

import pytest
from tests.cli.fake_conductor import FakeConductor

from roost.client.interface import METHODS, CloudClient
from roost.client.rpc_client import RpcClient
from roost.errors import IllegalStep, MessageError, RemoteFailure, RpcTimeout, RpcUnreachable, UnknownName
from roost.messages.context import RequestContext
from roost.messages.in_process import InProcessTransport
from roost.messages.options import RpcOptions

CONTEXT = RequestContext.new("req-1", "admin", "admin", is_admin=True)


class Answering:
    """A transport whose calls are all answered with this, or fail with it."""

    def __init__(self, answer):
        self.answer, self.calls = answer, []

    def call(self, topic, method, version, args, context, timeout, heartbeat_timeout=None):
        self.calls.append((topic, method, version, args, timeout, heartbeat_timeout))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def client_of(answer, **options):
    transport = Answering(answer)
    return RpcClient(transport, RpcOptions(**options), CONTEXT), transport


@pytest.fixture
def conductor():
    return FakeConductor()


@pytest.fixture
def client(conductor):
    transport = InProcessTransport(in_callers_thread=True)
    transport.serve("conductor", "one", [conductor.endpoint()]).start()
    yield RpcClient(transport, RpcOptions(), CONTEXT)
    transport.close()


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_sends_all_its_arguments_under_their_names(name):
    interface = inspect.signature(getattr(CloudClient, name)).parameters
    values = {each: f"<{each}>" for each in interface if each != "self"}
    for each in values.keys() & {"request", "changes", "metadata"}:
        values[each] = {"name": "web"}
    if "filters" in values:
        values["filters"] = {"host": "a"}
    key = name.removeprefix("list_")
    client, transport = client_of({key: []} if name.startswith("list_") else {"id": "1"}, rpc_response_timeout=7)
    getattr(client, name)(**values)
    if name == "list_servers":
        values["filters"]["limit"] = 1000
    takes_long = not name.startswith(("list_", "get_")) or name == "get_snapshot"
    assert transport.calls == [("conductor", name, "1.0", values, 1800.0 if takes_long else 7.0, 7.0)]
    assert inspect.signature(getattr(RpcClient, name)) == inspect.signature(getattr(CloudClient, name))


def test_expected_errors_of_the_conductor_keep_their_class(client, conductor):
    with pytest.raises(UnknownName, match="there is no server web"):
        client.get_server("web")
    conductor.add("web")
    with pytest.raises(IllegalStep, match="start is not possible while it is active/idle"):
        client.start_server("web")


def test_a_cloud_without_conductors_is_one_line_with_the_remedy():
    client = RpcClient(InProcessTransport(), RpcOptions(), CONTEXT)
    with pytest.raises(RpcUnreachable, match=r"no conductor can be reached: .* \(start"):
        client.list_hosts()


def test_a_conductor_that_does_not_answer_leaves_the_outcome_open():
    client, _ = client_of(RpcTimeout("delete_server on conductor: no answer within 60 seconds"))
    with pytest.raises(RpcTimeout, match="not known"):
        client.delete_server("web")


@pytest.mark.parametrize(("method", "args"), [("get_server", ("web",)), ("get_host", ("a",)), ("list_hosts", ())])
def test_a_read_without_an_answer_is_given_up_after_ten_silent_seconds_and_has_changed_nothing(method, args):
    client, transport = client_of(RpcTimeout(f"{method} on conductor: no answer in time"))
    with pytest.raises(RpcTimeout, match=r"is a conductor running\?") as found:
        getattr(client, method)(*args)
    assert "known" not in str(found.value)
    assert transport.calls[0][-2:] == (60.0, 10.0)


def test_a_bug_of_the_conductor_is_told_as_such():
    client, _ = client_of(RemoteFailure("KeyError", "'host'"))
    with pytest.raises(RemoteFailure, match="KeyError"):
        client.get_server("web")


@pytest.mark.parametrize("answer", [None, [], "yes", 3])
def test_an_answer_that_is_no_object_is_refused(answer):
    with pytest.raises(MessageError, match="get_server"):
        client_of(answer)[0].get_server("web")
    with pytest.raises(MessageError, match="list_hosts"):
        client_of({"hosts": answer} if answer != [] else {})[0].list_hosts()
