# SPDX-License-Identifier: Apache-2.0
"""Refusals of an API become errors, whose text is the API's own."""

import json

import pytest
import requests

from roost.client.api_session import error_of, no_valid_host, sign_in_error
from roost.errors import (
    ApiError,
    ApiUnavailable,
    BadInput,
    Conflict,
    Forbidden,
    RemoteNoValidHost,
    SignInRefused,
    TokenRefused,
    TooManyAttempts,
    UnknownName,
)


def response(status, body=None, **headers):
    made = requests.Response()
    made.status_code, made.reason = status, "A Reason"
    made._content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    made.headers.update(headers)
    return made


@pytest.mark.parametrize(
    ("status", "key", "kind"),
    [
        (400, "badRequest", BadInput),
        (401, "error", TokenRefused),
        (403, "forbidden", Forbidden),
        (404, "itemNotFound", UnknownName),
        (409, "conflictingRequest", Conflict),
        (406, "computeFault", ApiError),
        (500, "computeFault", ApiUnavailable),
        (503, "serviceUnavailable", ApiUnavailable),
    ],
)
def test_a_status_is_an_error_with_the_message_of_the_fault(status, key, kind):
    error = error_of("here", response(status, {key: {"code": status, "message": "what\n is wrong"}}))
    assert type(error) is kind
    assert "what is wrong" in str(error)


@pytest.mark.parametrize("body", ["", "<html>", "[]", "7", '{"error": 7}'])
def test_without_a_fault_the_status_is_said(body):
    assert str(error_of("here", response(400, body))) == "status 400 A Reason"


def test_no_valid_host_has_its_summary():
    error = error_of(
        "here", response(400, {"badRequest": {"message": "No valid host was found. (0 of 2 hosts fit)"}})
    )
    assert isinstance(error, RemoteNoValidHost)
    assert (error.message, error.summary) == ("No valid host was found.", "0 of 2 hosts fit")
    assert str(no_valid_host("No valid host was found.")) == "No valid host was found."
    nested = "No valid host was found. (0 of 2 hosts fit: 2 ram (needs 5, most free 4))"
    assert str(no_valid_host(nested)) == nested


@pytest.mark.parametrize(("header", "seconds"), [("7", 7.0), ("0", 1.0), ("Thu, 19 Nov 2026", 5.0)])
def test_too_many_attempts_say_how_long_to_wait(header, seconds):
    error = error_of("here", response(429, {"overLimit": {"message": "slow down"}}, **{"Retry-After": header}))
    assert isinstance(error, TooManyAttempts)
    assert error.retry_after_seconds == seconds


@pytest.mark.parametrize(
    ("status", "kind"), [(401, SignInRefused), (404, BadInput), (429, TooManyAttempts), (503, ApiUnavailable)]
)
def test_a_sign_in_that_fails_is_its_own_error(status, kind):
    error = sign_in_error("here", response(status, {"error": {"message": "no"}}))
    assert type(error) is kind


def test_a_sign_in_without_a_token_is_an_error():
    assert type(sign_in_error("here", response(201, {}))) is ApiError
