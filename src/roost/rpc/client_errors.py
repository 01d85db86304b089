# SPDX-License-Identifier: Apache-2.0
"""Errors that a conductor answers to its clients: sent by class name, message and hint, and raised again there.

The conductor runs each method that clients call within `as_client_errors`; the client calls within `as_own_errors`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from roost.errors import (
    BadInput,
    Conflict,
    DatabaseError,
    DatabaseFull,
    HypervisorError,
    IllegalStep,
    RemoteFailure,
    RemoteNoValidHost,
    RoostError,
    RpcTimeout,
    RpcUnreachable,
    ServerChanged,
    ServiceUnavailable,
    UnknownName,
)
from roost.rpc.wire_errors import WireFailure, make_failure

LOG = logging.getLogger(__name__)
MODULE = "roost.errors"
NO_DATABASE = "the conductor cannot use its database now"
FULL_DATABASE = "the conductor's database is full"
SEE_LOG = "its log says more"
CHANGED = "it was changed at the same time; look at it, then try again"
_REFUSALS = ("Invalid", "UnsupportedPolicyException")
"""Errors with which a scheduler answers a wrong request."""
_SENT: dict[str, type[RoostError]] = {
    each.__name__: each
    for each in (UnknownName, Conflict, IllegalStep, BadInput, HypervisorError, ServiceUnavailable, RoostError)
}
"""Classes that are sent as they are; of others the first of these that they are a subclass of."""


@contextmanager
def as_client_errors(is_admin: bool = False) -> Iterator[None]:
    """On the conductor: raise Roost's errors in a form that the client can raise again, without what is secret.

    `is_admin`: whether the client may see the summary of a decision, which names hosts and their free resources.
    """
    try:
        yield
    except RemoteNoValidHost as error:
        raise _failure("NoValidHost", error, reason=error.reason, summary=error.summary if is_admin else "") from None
    except ServerChanged as error:
        raise _failure("IllegalStep", error, hint=CHANGED) from None
    except DatabaseError as error:  # whose text names address and user
        said = FULL_DATABASE if isinstance(error, DatabaseFull) else NO_DATABASE
        LOG.warning("%s: %s", said, error)
        raise make_failure(MODULE, "ServiceUnavailable", said, hint=SEE_LOG) from None
    except (RpcUnreachable, RpcTimeout) as error:  # of a scheduler or an agent
        raise _failure("ServiceUnavailable", error) from None
    except RemoteFailure as error:
        name = "ServiceUnavailable" if error.is_unavailable else "RoostError"
        raise _failure("BadInput" if error.name in _REFUSALS else name, error) from None
    except RoostError as error:
        name = next(name for name, kind in _SENT.items() if isinstance(error, kind))
        raise _failure(name, error) from None


@contextmanager
def as_own_errors() -> Iterator[None]:
    """On the client: raise the errors of a conductor as the same class; other failures stay a RemoteFailure."""
    try:
        yield
    except RemoteNoValidHost:
        raise
    except RemoteFailure as error:
        if error.name not in _SENT:
            raise
        raise _SENT[error.name](error.message, error.hint) from None


def _failure(name: str, error: RoostError, *, hint: str = "", **more: Any) -> WireFailure:
    return make_failure(MODULE, name, error.message, hint=hint or error.hint, **more)
