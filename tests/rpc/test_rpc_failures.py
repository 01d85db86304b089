# SPDX-License-Identifier: Apache-2.0
"""Errors on their way: named for nova, rebuilt at the caller, never in the way of an answer."""

import json

import pytest

from roost.errors import RemoteFailure, RemoteNoValidHost, UnsupportedVersion
from roost.messages.dispatcher import from_wire, is_expected, make_sendable, nova_failure, to_wire


def raised(error):
    try:
        raise error
    except Exception as caught:
        return caught


def test_a_failure_for_nova_names_novas_class_and_its_arguments():
    failure = nova_failure("NoValidHost", "No valid host was found. None.", reason="None.")
    assert (type(failure).__module__, type(failure).__name__) == ("nova.exception", "NoValidHost")
    assert failure.args == ("No valid host was found. None.",)
    assert failure.kwargs == {"reason": "None.", "code": 500}
    assert is_expected(failure)


def test_the_form_on_the_wire_has_the_keys_of_oslo_messaging_and_no_traceback_for_an_answer():
    failure = nova_failure("MaxRetriesExceeded", "Exceeded maximum number of retries. x", reason="x")
    assert json.loads(to_wire(failure)) == {
        "class": "MaxRetriesExceeded",
        "module": "nova.exception",
        "message": "Exceeded maximum number of retries. x",
        "tb": [],
        "args": ["Exceeded maximum number of retries. x"],
        "kwargs": {"reason": "x", "code": 500},
    }


def test_the_code_can_be_another():
    assert nova_failure("ComputeServiceUnavailable", "gone", code=503).kwargs == {"code": 503}


def test_an_unexpected_failure_is_marked_so():
    assert not is_expected(nova_failure("MigrationError", "x", is_expected=False))
    assert not is_expected(ValueError())


@pytest.mark.parametrize("name", ["NoValidHost", "MaxRetriesExceeded"])
def test_that_no_host_fits_is_an_error_of_its_own_at_the_caller(name):
    error = from_wire(to_wire(nova_failure(name, "text", reason="why")))
    assert isinstance(error, RemoteNoValidHost)
    assert (error.name, error.message, error.reason) == (name, "text", "why")


def test_any_other_error_keeps_its_name_and_its_traceback_out_of_its_text():
    error = from_wire(to_wire(raised(ValueError("bad"))))
    assert type(error) is RemoteFailure
    assert str(error) == "ValueError: bad"
    assert any("raise error" in line for line in error.traceback)


def test_an_unknown_version_is_an_error_of_its_own():
    text = json.dumps({"class": "UnsupportedVersion", "module": "oslo_messaging.rpc.dispatcher", "message": "9.0"})
    assert isinstance(from_wire(text), UnsupportedVersion)


@pytest.mark.parametrize("junk", ["", "{", "[]", "5", None, 7, json.dumps({"tb": 5, "kwargs": [], "class": None})])
def test_an_error_that_cannot_be_understood_is_still_an_error(junk):
    assert isinstance(from_wire(junk), RemoteFailure)


def test_an_error_that_holds_what_is_no_json_says_the_same_in_words():
    error = raised(LookupError(object, {1}))
    sendable = make_sendable(error)
    assert type(sendable).__name__ == "LookupError"
    assert sendable.args == (str(error),)
    assert sendable.__traceback__ is error.__traceback__
    assert from_wire(to_wire(error)).name == "LookupError"


def test_an_error_that_can_be_sent_is_sent_as_it_is():
    error = KeyError("x")
    assert make_sendable(error) is error
