# SPDX-License-Identifier: Apache-2.0
"""Calls over the Unix socket of a development cloud, and whatever else reaches it."""

import json
import os
import socket
import stat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roost.errors import (
    BadInput,
    MessageError,
    RemoteFailure,
    RemoteNoValidHost,
    RpcTimeout,
    RpcUnreachable,
    UnknownName,
)
from roost.messages import loopback as server_module
from roost.messages.context import MAX_BYTES, RequestContext
from roost.messages.dispatcher import as_client_errors, as_own_errors, nova_failure
from roost.messages.in_process import InProcessTransport
from roost.messages.loopback import (
    SOCKET_NAME,
    LoopbackServer,
    LoopbackTransport,
    answer_line,
    default_state_directory,
    find_dev_cloud,
)

CONTEXT = RequestContext.new("req-1", "ann", "blue", is_admin=True)
ALLOWED = {"conductor": frozenset({"echo", "fail", "refuse", "missing"})}


class Methods:
    version = "1.0"

    @property
    def methods(self):
        return {"echo": self.echo, "fail": self.fail, "refuse": self.refuse, "build_instances": self.echo}

    def echo(self, context, **args):
        return {"args": args, "user": context.user_id, "is_admin": context.is_admin}

    def fail(self, context):
        with as_client_errors():
            raise UnknownName("flavor 'gigantic' does not exist", "did you mean giant?")

    def refuse(self, context):
        raise nova_failure("NoValidHost", "No valid host was found. too small", reason="too small", summary="0 of 9")


@pytest.fixture
def transport():
    found = InProcessTransport(in_callers_thread=True)
    found.serve("conductor", "one", [Methods()]).start()
    yield found
    found.close()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a short name: the path of a socket is bounded."""
    monkeypatch.chdir(tmp_path)
    return Path()


@pytest.fixture
def server(transport, folder):
    found = LoopbackServer(folder / SOCKET_NAME, transport, ALLOWED)
    found.start()
    yield found
    found.stop()


def call(server, method, **args):
    return LoopbackTransport(server.path).call("conductor", method, "1.0", args, CONTEXT, timeout=10)


def raw(server, data):
    """Send bytes, end the sending, and return all that comes back."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        connection.connect(str(server.path))
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        found = b""
        while part := connection.recv(65536):
            found += part
        return found


def test_a_call_reaches_the_service_with_its_arguments_and_the_caller(server):
    assert call(server, "echo", count=2) == {"args": {"count": 2}, "user": "ann", "is_admin": True}


def test_an_error_of_the_service_keeps_its_class_and_text(server):
    with pytest.raises(UnknownName, match=r"'gigantic' does not exist \(did you mean giant\?\)"), as_own_errors():
        call(server, "fail")


def test_no_valid_host_is_the_same_error_as_over_a_broker(server):
    with pytest.raises(RemoteNoValidHost) as found:
        call(server, "refuse")
    assert (found.value.reason, found.value.summary) == ("too small", "0 of 9")


def test_methods_between_services_cannot_be_called_from_outside(server):
    with pytest.raises(MessageError, match=r"'build_instances' of 'conductor' cannot be called over this socket"):
        call(server, "build_instances")


def test_a_method_that_the_service_does_not_have_is_its_answer(server):
    with pytest.raises(RemoteFailure) as found:
        call(server, "missing")
    assert found.value.name == "NoSuchMethod"


def test_without_a_service_the_call_says_that_nothing_was_executed(folder):
    server = LoopbackServer(folder / SOCKET_NAME, InProcessTransport(), ALLOWED)
    server.start()
    with pytest.raises(RpcUnreachable):
        call(server, "echo")
    server.stop()


def test_without_a_cloud_the_client_says_how_to_start_one(folder):
    with pytest.raises(RpcUnreachable, match="start it: roost dev"):
        LoopbackTransport(folder / SOCKET_NAME).call("conductor", "echo", "1.0", {}, CONTEXT, timeout=10)


def test_a_cloud_that_goes_away_during_a_call_may_have_executed_it(folder):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / SOCKET_NAME))
        listener.listen()
        transport = LoopbackTransport(folder / SOCKET_NAME)
        with pytest.raises(RpcTimeout, match=r"no answer within 0\.01 seconds"):
            transport.call("conductor", "echo", "1.0", {}, CONTEXT, timeout=0.01)


def test_the_socket_is_for_its_user_alone(server):
    assert stat.S_IMODE(os.stat(server.path).st_mode) == 0o600


def test_a_running_cloud_is_found_and_a_stopped_one_is_not(server, folder):
    assert find_dev_cloud(folder) == server.path
    server.stop()
    assert find_dev_cloud(folder) is None


def test_the_socket_of_a_killed_process_is_replaced(folder, transport):
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(folder / SOCKET_NAME))
    assert find_dev_cloud(folder) is None
    server = LoopbackServer(folder / SOCKET_NAME, transport, ALLOWED)
    server.start()
    assert find_dev_cloud(folder) == server.path
    server.stop()


def test_a_file_in_the_place_of_the_socket_is_left_alone(folder, transport):
    (folder / SOCKET_NAME).write_text("mine")
    with pytest.raises(BadInput, match="the socket cannot be made"):
        LoopbackServer(folder / SOCKET_NAME, transport, ALLOWED)
    assert (folder / SOCKET_NAME).read_text() == "mine"


def test_a_path_that_is_too_long_for_a_socket_is_told(tmp_path, transport):
    with pytest.raises(BadInput, match="at most 107 bytes"):
        LoopbackServer(tmp_path / ("x" * 120) / SOCKET_NAME, transport, ALLOWED)


def test_the_state_directory_is_the_users_unless_the_environment_names_another():
    assert default_state_directory({"XDG_STATE_HOME": "/state"}) == Path("/state/roost/dev")
    assert default_state_directory({"XDG_STATE_HOME": "/state", "ROOST_DEV_STATE": "here"}) == Path("here")
    assert default_state_directory({"XDG_STATE_HOME": "relative"}) == Path.home() / ".local/state/roost/dev"


# --- garbage -----------------------------------------------------------------------------------------


def test_several_lines_on_one_connection_get_a_reply_each(server):
    line = json.dumps({"topic": "conductor", "method": "echo", "version": "1.0"}).encode()
    replies = raw(server, line + b"\n" + b"nonsense\n" + line + b"\n").splitlines()
    assert [json.loads(each)["failure"] is None for each in replies] == [True, False, True]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\xff\xfe",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b'{"topic": "conductor", "method": ["echo"], "version": "1.0"}',
        b'{"topic": "conductor", "method": "echo", "version": "1.0", "args": []}',
        b'{"topic": "conductor", "method": "echo", "version": "1.0", "timeout": "NaN"}',
        b'{"topic": "conductor", "method": "echo", "version": "9.0"}',
        b'{"topic": "compute.a-001", "method": "echo", "version": "1.0"}',
        b"[" * 100_000,
        b'{"topic": "conductor", "method": "echo", "version": "1.0", "args": {"a": ' + b"[" * 99 + b"]" * 99 + b"}}",
    ],
)
def test_a_line_that_is_no_call_gets_a_failure_and_the_socket_goes_on(server, line):
    assert json.loads(raw(server, line + b"\n"))["failure"]["message"]
    assert call(server, "echo")


def test_a_line_that_is_too_long_gets_a_failure_and_ends_the_connection(server):
    reply = raw(server, b"x" * (MAX_BYTES + 2))
    assert len(reply.splitlines()) == 1
    assert json.loads(reply)["failure"]["class"] == "MessageError"


@pytest.fixture
def busy_server(server, monkeypatch):
    """A server with as many open connections as it allows."""
    monkeypatch.setattr(server_module, "MAX_CONNECTIONS", 1)
    with socket.socket(socket.AF_UNIX) as held:
        held.settimeout(10)
        held.connect(str(server.path))
        yield server
        held.sendall(b"{}\n")
        assert held.recv(10)  # the connection that was there first still works


def test_a_connection_too_many_is_told_so_and_closed(busy_server):
    with socket.socket(socket.AF_UNIX) as second:
        second.settimeout(10)
        second.connect(str(busy_server.path))
        assert b"too many connections" in second.recv(1000)
        assert second.recv(10) == b""


def test_a_call_over_a_connection_too_many_says_that_nothing_was_executed(busy_server):
    with pytest.raises(RpcUnreachable, match=r"too many connections to the development cloud \(1 at most\)"):
        call(busy_server, "echo", text="x" * 1_000_000)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    line=st.one_of(
        st.binary(max_size=200),
        st.dictionaries(
            st.sampled_from(["topic", "method", "version", "args", "context", "timeout", "x"]),
            st.recursive(
                st.none()
                | st.booleans()
                | st.floats(allow_nan=False)
                | st.sampled_from(["conductor", "echo", "1.0"]),
                lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
                max_leaves=8,
            ),
        ).map(lambda each: json.dumps(each).encode()),
    )
)
def test_any_line_gets_one_reply(line, transport):
    reply = answer_line(line, transport, ALLOWED)
    assert reply.endswith(b"\n")
    assert json.loads(reply).keys() == {"result", "failure"}
