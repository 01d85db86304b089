# SPDX-License-Identifier: Apache-2.0
"""JSON, so much of it and no more; contexts of every release."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.errors import MessageError, RpcError
from roost.messages.broker_server import JSON, read_reply, read_request
from roost.messages.context import MAX_BYTES, MAX_DEPTH, RequestContext, decode, encode, encode_request
from roost.model.json_records import is_deeper_than

NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def nested(depth):
    return "[" * depth + "]" * depth


@given(VALUES)
def test_what_is_json_arrives_as_it_was(value):
    assert decode(encode(value, "it")) == value


@pytest.mark.parametrize("value", [object(), {1}, float("inf"), {(1, 2): 3}, b"x"])
def test_what_is_no_json_is_not_sent_and_the_error_names_it(value):
    with pytest.raises(MessageError, match="argument x cannot be sent"):
        encode(value, "argument x")


def test_depth_at_the_limit_is_read_and_beyond_it_is_not():
    assert is_deeper_than(MAX_DEPTH, decode(nested(MAX_DEPTH))) is False
    with pytest.raises(MessageError, match="more than 64 deep"):
        decode(nested(MAX_DEPTH + 1))


def test_depth_that_would_end_the_interpreter_is_refused():
    with pytest.raises(MessageError, match="more than 64 deep"):
        decode(nested(200_000))


def test_size_at_the_limit_is_read_and_beyond_it_is_not():
    assert len(decode(b'"' + b"x" * (MAX_BYTES - 2) + b'"')) == MAX_BYTES - 2
    with pytest.raises(MessageError, match=f"more than {MAX_BYTES}"):
        decode(b'"' + b"x" * (MAX_BYTES - 1) + b'"')
    with pytest.raises(MessageError, match=f"more than {MAX_BYTES}"):
        encode_request("x" * MAX_BYTES, "it")


@pytest.mark.parametrize("text", ["", "{", "NaN", "[Infinity]", b"\xff", "{'a': 1}", "9" * 5000])
def test_what_is_no_json_is_refused(text):
    with pytest.raises(MessageError, match="no JSON"):
        decode(text)


@given(st.binary(max_size=200) | VALUES.map(lambda value: json.dumps(value).encode()))
def test_whatever_is_delivered_is_a_message_or_an_error_of_ours(body):
    for read in (read_request, read_reply):
        with contextlib.suppress(MessageError):
            assert isinstance(read(body, JSON), dict)


def test_an_error_in_a_reply_is_the_exception_for_the_caller():
    reply = read_reply(json.dumps({"failure": json.dumps({"class": "X", "message": "m"}), "result": None}), JSON)
    assert reply["failure"] is None
    assert isinstance(reply["result"], RpcError)


def test_a_context_of_an_older_release_is_understood():
    context = RequestContext.from_dict({"user": "ann", "tenant": "blue", "is_admin": True, "request_id": "req-1"})
    assert (context.user_id, context.project_id, context.is_admin) == ("ann", "blue", True)
    assert context.to_dict()["tenant"] == "blue"


@pytest.mark.parametrize("odd", [5, [], {}, None, True])
def test_an_odd_context_is_an_empty_one(odd):
    context = RequestContext.from_dict({"user_id": odd, "project_id": odd, "request_id": odd, "is_admin": "yes"})
    assert context == RequestContext()


def test_a_context_does_not_show_its_token():
    assert "secret" not in repr(RequestContext.from_dict({"auth_token": "secret"}))
