# SPDX-License-Identifier: Apache-2.0
"""Refusals of an API as errors: the counterpart of `api/problems.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import requests

from roost.errors import (
    ApiError,
    ApiUnavailable,
    BadInput,
    Conflict,
    Forbidden,
    RemoteNoValidHost,
    RoostError,
    SignInRefused,
    TokenRefused,
    TooManyAttempts,
    UnknownName,
)

NO_VALID_HOST = "No valid host"
"""How the message begins where no host fits, in nova's words."""
_CLASSES: Mapping[int, type[RoostError]] = {
    400: BadInput,
    401: TokenRefused,
    403: Forbidden,
    404: UnknownName,
    409: Conflict,
}
_USUAL_WAIT_SECONDS = 5.0


def error_of(cloud: str, response: requests.Response) -> RoostError:
    """The error that an answer stands for, with the message that is in it. `cloud`: its name, for the message."""
    status, message = response.status_code, _message_in(response)
    if status == 429:
        return TooManyAttempts(message, _seconds_to_wait(response))
    if status == 400 and message.startswith(NO_VALID_HOST):
        return no_valid_host(message)
    if status >= 500 and status != 501:
        return ApiUnavailable(f"cloud {cloud} cannot answer: {message}", "its log says more")
    return _CLASSES.get(status, ApiError)(message)


def no_valid_host(text: str) -> RemoteNoValidHost:
    """The error where no host fits; a summary of the decision is in brackets at the end of the text."""
    message, _, summary = text.partition(" (")
    return RemoteNoValidHost("NoValidHost", message, summary=summary.removesuffix(")"))


def sign_in_error(cloud: str, response: requests.Response) -> RoostError:
    """The error for an answer to a sign-in that is no token."""
    message = f"cloud {cloud}: {_message_in(response)}"
    if response.status_code in (401, 403):
        return SignInRefused(message, "check user, password and project in clouds.yaml, or in OS_*")
    if response.status_code == 404:
        return BadInput(f"cloud {cloud}: no sign-in is possible at that address", "auth_url ends with /identity/v3")
    return error_of(cloud, response) if not response.ok else ApiError(f"cloud {cloud}: the sign-in gave no token")


def _message_in(response: requests.Response) -> str:
    """The message of a fault, in one line; where there is none, status and reason."""
    try:
        document: Any = response.json()
    except ValueError:
        document = None
    if isinstance(document, dict):
        for fault in document.values():  # one key, which names the kind of fault
            if isinstance(fault, dict) and fault.get("message"):
                return " ".join(str(fault["message"]).split())
    return f"status {response.status_code} {response.reason or ''}".rstrip()


def _seconds_to_wait(response: requests.Response) -> float:
    try:
        return max(1.0, float(response.headers.get("Retry-After", _USUAL_WAIT_SECONDS)))
    except ValueError:
        return _USUAL_WAIT_SECONDS
