# SPDX-License-Identifier: Apache-2.0
"""Errors and faults of moves, in nova's words."""

from __future__ import annotations

from roost.errors import BadInput, RemoteFailure, RoostError, RpcError
from roost.messages.context import RequestContext
from roost.records.server import Fault, Server

NO_VALID_HOST = "No valid host was found."
NOT_ASKED = "No scheduler could be asked for a host."
NOT_UNDERSTOOD = "The scheduler could not answer the request."
TOO_MANY_RETRIES = "Exceeded maximum number of retries."


class MoveRefused(RoostError):
    """A move that cannot begin, or found no host. `name`: nova's class for it; `details`: for admins.

    `migration_status`: of the migration record, then.
    """

    code = "roost.move_refused"

    def __init__(self, name: str, message: str, details: str = "", migration_status: str = "error") -> None:
        super().__init__(message)
        self.name, self.details, self.migration_status = name, details, migration_status

    def to_fault(self) -> Fault:
        """The fault of the server."""
        return Fault(self.message, self.details)


def refuse_unless_admin(context: RequestContext, what: str) -> None:
    """BadInput for a caller who is no admin: nova leaves this to admins, who know the hosts."""
    if not context.is_admin:
        raise BadInput(f"only an admin may {what}", "ask an operator")


def no_valid_host(error: RemoteFailure, reason: str = "", attempts: str = "") -> MoveRefused:
    """The refusal of a scheduler; `reason`: in nova's words for the operation, else that of the scheduler."""
    message = f"{NO_VALID_HOST} {reason}" if reason else error.message
    found = error.summary or error.message
    return MoveRefused("NoValidHost", message, "\n".join(filter(None, (found, attempts))))


def scheduler_failure(error: RpcError) -> MoveRefused:
    """A failure of a scheduler, or of the way to it; its text, which may name addresses, is for admins."""
    if isinstance(error, RemoteFailure):
        return MoveRefused(error.name, NOT_UNDERSTOOD, error.message)
    return MoveRefused(type(error).__name__, NOT_ASKED, error.message)


def retries_exhausted(server: Server, attempts: str) -> MoveRefused:
    """No alternate is left after failures on all hosts before; `attempts`: with their reasons."""
    reason = f"Exhausted all hosts available for retrying build failures for instance {server.uuid}."
    return MoveRefused("MaxRetriesExceeded", f"{TOO_MANY_RETRIES} {reason}", attempts)
