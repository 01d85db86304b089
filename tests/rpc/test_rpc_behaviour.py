# SPDX-License-Identifier: Apache-2.0
"""What holds for every transport: within the process, and over a real broker."""

import logging
import threading

import pytest
from tests.rpc.conftest import Methods

from roost.errors import MessageError, RemoteFailure, RemoteNoValidHost, RpcTimeout, UnsupportedVersion
from roost.messages.context import MAX_BYTES, RequestContext


@pytest.fixture
def call(transport, topic, context):
    def ask(method, version="4.0", timeout=10, on=topic, heartbeat_timeout=None, **args):
        return transport.call(on, method, version, args, context, timeout, heartbeat_timeout)

    return ask


@pytest.fixture
def server(transport, serve, methods):
    return serve(transport, methods)


@pytest.mark.usefixtures("server")
class TestCall:
    def test_a_call_is_answered(self, call):
        assert call("echo", value={"a": [1, None, "ä", 1.5, True]}) == {"a": [1, None, "ä", 1.5, True]}

    def test_tuples_arrive_as_lists_since_messages_are_json(self, call):
        assert call("echo", value=(1, 2)) == [1, 2]

    def test_none_is_an_answer(self, call):
        assert call("echo", value=None) is None

    def test_the_context_travels_whole(self, transport, topic):
        context = RequestContext.from_dict({"request_id": "req-9", "user": "ann", "roles": ["x"], "is_admin": True})
        received = RequestContext.from_dict(transport.call(topic, "context", "4.0", {}, context, 10))
        assert received == context
        assert received.values["roles"] == ["x"]

    def test_nobody_waits_for_what_is_done_after_the_answer(self, call, methods, caplog):
        assert call("tidy_up_later", is_refused=False) == "answered"
        with pytest.raises(RemoteNoValidHost):
            call("tidy_up_later", is_refused=True)
        assert methods.seen == []
        methods.gate.set()
        methods.wait_until_seen("tidied up", "tidied up")
        failed = [record for record in caplog.records if "after the answer failed" in record.message]
        assert [record.exc_info[0] for record in failed] == [ZeroDivisionError, ZeroDivisionError]

    @pytest.mark.parametrize("version", ["4.0", "4.5"])
    def test_minors_up_to_the_servers_are_taken(self, call, version):
        assert call("echo", version, value=1) == 1

    @pytest.mark.parametrize("version", ["4.6", "5.0", "3.9", "1.0"])
    def test_newer_minors_and_other_majors_are_refused(self, call, version):
        with pytest.raises(UnsupportedVersion, match=f"version {version}.*served here: 4.5"):
            call("echo", version, value=1)

    @pytest.mark.parametrize("version", ["four", "4", "4.x", ""])
    def test_what_is_no_version_is_refused(self, call, version):
        with pytest.raises(RemoteFailure, match="is no version"):
            call("echo", version, value=1)

    def test_an_unknown_method_is_refused_in_one_line(self, call, caplog):
        with pytest.raises(RemoteFailure, match="does not support RPC method nothing") as raised:
            call("nothing")
        assert raised.value.name == "NoSuchMethod"
        assert [record.exc_info for record in caplog.records if record.name.startswith("roost")] == [None]

    @pytest.mark.parametrize("args", [{}, {"value": 1, "more": 2}, {"other": 1}])
    def test_wrong_arguments_are_refused(self, call, args):
        with pytest.raises(RemoteFailure, match=r"echo: .* argument") as raised:
            call("echo", **args)
        assert raised.value.name == "MessageError"

    @pytest.mark.parametrize("method", ["__class__", "methods", "_private"])
    def test_only_what_is_listed_can_be_called(self, call, method):
        with pytest.raises(RemoteFailure, match="does not support RPC method"):
            call(method)

    def test_a_refusal_has_its_reason_and_is_not_logged(self, call, caplog):
        with pytest.raises(RemoteNoValidHost) as raised:
            call("refuse")
        assert str(raised.value) == "No valid host was found. None fits."
        assert (raised.value.name, raised.value.reason) == ("NoValidHost", "None fits.")
        assert [record for record in caplog.records if record.levelno > logging.INFO] == []

    def test_an_unexpected_error_is_logged_with_its_traceback_and_sent(self, call, caplog):
        with pytest.raises(RemoteFailure, match="KeyError: 'something'") as raised:
            call("fail")
        assert raised.value.name == "KeyError"
        assert "raise KeyError" in "".join(raised.value.traceback)
        (record,) = [record for record in caplog.records if record.exc_info]
        assert record.getMessage() == "fail req-1 failed"

    def test_a_result_that_is_no_json_is_an_error_at_the_caller(self, call):
        with pytest.raises(RemoteFailure, match="the result of odd cannot be sent"):
            call("odd")

    @pytest.mark.parametrize("value", [object(), {1, 2}, float("nan"), b"bytes"])
    def test_an_argument_that_is_no_json_is_not_sent(self, call, value):
        with pytest.raises(MessageError, match="echo: an argument cannot be sent"):
            call("echo", value=value)

    def test_one_server_is_reached_by_its_name(self, call, topic):
        assert call("who", on=f"{topic}.host1") == "host1"

    def test_no_answer_in_time_is_a_timeout_and_says_of_what(self, call, methods, topic):
        with pytest.raises(RpcTimeout, match=f"wait_for_gate on {topic}: no answer"):
            call("wait_for_gate", timeout=0.2)
        methods.gate.set()
        assert call("echo", value=1) == 1

    def test_an_answer_after_the_timeout_disturbs_nobody(self, call, methods):
        with pytest.raises(RpcTimeout):
            call("wait_for_gate", timeout=0.1)
        methods.gate.set()
        assert [call("echo", value=number) for number in range(3)] == [0, 1, 2]

    def test_many_callers_each_get_their_own_answer(self, call):
        answers = {}

        def ask(number):
            answers[number] = call("echo", value=number)

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == {number: number for number in range(20)}

    def test_too_large_a_request_is_not_sent(self, call):
        with pytest.raises(MessageError, match=f"bytes are more than {MAX_BYTES}"):
            call("echo", value="x" * MAX_BYTES)


class TestSeveralServers:
    def test_those_on_one_topic_take_turns(self, transport, serve, call):
        serve(transport, Methods(name="a"), name="a")
        serve(transport, Methods(name="b"), name="b")
        assert sorted(call("who") for _ in range(10)) == ["a"] * 5 + ["b"] * 5

    def test_what_is_told_to_all_reaches_all(self, transport, topic, serve, context):
        first, second = Methods(), Methods()
        serve(transport, first, name="a")
        serve(transport, second, name="b")
        transport.cast(topic, "note", "4.2", {"value": 7}, context, fanout=True)
        first.wait_until_seen(7)
        second.wait_until_seen(7)

    def test_a_cast_reaches_one_and_what_is_wrong_with_it_hurts_nobody(
        self, transport, topic, serve, methods, context
    ):
        serve(transport, methods)
        for method, args in [("nothing", {}), ("note", {}), ("fail", {}), ("note", {"value": 1})]:
            transport.cast(topic, method, "4.0", args, context)
        methods.wait_until_seen(1)

    def test_a_server_has_an_endpoint_for_each_major(self, transport, serve, call):
        serve(transport, Methods("4.5", "new"), Methods("3.0", "old"))
        assert [call("who", "4.3"), call("who", "3.0")] == ["new", "old"]
        with pytest.raises(UnsupportedVersion, match=r"served here: 4\.5, 3\.0"):
            call("who", "2.0")


class TestStopping:
    def test_a_running_request_is_answered_after_stop(self, transport, serve, methods, call):
        server = serve(transport, methods)
        answers = []
        caller = threading.Thread(target=lambda: answers.append(call("wait_for_gate")))
        caller.start()
        assert methods.is_at_gate.wait(5)
        server.stop()
        assert not server.is_connected
        methods.gate.set()
        server.wait()
        caller.join(5)
        assert answers == ["through"]

    def test_after_stop_the_others_take_everything(self, transport, serve, call):
        first = serve(transport, Methods(name="a"), name="a")
        serve(transport, Methods(name="b"), name="b")
        first.stop()
        first.wait()
        assert {call("who") for _ in range(4)} == {"b"}

    def test_a_started_server_is_connected(self, transport, topic, methods):
        server = transport.serve(topic, "host1", [methods])
        assert not server.is_connected
        server.start()
        assert server.is_connected
        server.stop()
        server.wait()
        assert not server.is_connected
