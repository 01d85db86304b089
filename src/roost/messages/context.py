# SPDX-License-Identifier: Apache-2.0
"""The context of a request, which travels with every message - who makes it - and the encoding of messages.

They are JSON of bounded size and depth.
"""

from __future__ import annotations

import datetime
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

from roost.errors import MessageError
from roost.model.json_records import is_deeper_than

LOG = logging.getLogger(__name__)

_PUBLIC_TEXTS = (
    "read_deleted",
    "remote_address",
    "timestamp",
    "user_domain",
    "project_domain",
    "user_name",
    "project_name",
)
"""Further values of a context that plugins may see."""


class CallerPatience(NamedTuple):
    """How long a caller waits for an answer, and how long it may have waited already."""

    timeout_seconds: float | None = None
    """Without an answer or a heartbeat for that long, it gives up; None: it does not say."""
    queued_seconds: float = 0.0
    """How long the message may have waited before it was taken, at most."""


ENDLESS = CallerPatience()


@dataclass(frozen=True)
class RequestContext:
    """User, project and id of a request. Further values of the sender are kept in `values` and travel on."""

    request_id: str = ""
    user_id: str = ""
    project_id: str = ""
    is_admin: bool = False
    values: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """The whole context as received. Not in the repr: it may hold a token."""
    patience: CallerPatience = field(default=ENDLESS, compare=False, repr=False)
    _deferred: list[Callable[[], None]] = field(default_factory=list, init=False, compare=False, repr=False)

    @classmethod
    def new(
        cls, request_id: str, user_id: str = "", project_id: str = "", is_admin: bool = False, **more: Any
    ) -> RequestContext:
        """A context for a request that starts here; `more` are further values to send."""
        return cls(request_id, user_id, project_id, is_admin, more)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], patience: CallerPatience = ENDLESS) -> RequestContext:
        """The context of a message from any release of nova; what is missing or of another type becomes empty."""
        return cls(
            request_id=_first_text(values, "request_id"),
            user_id=_first_text(values, "user_id", "user"),
            project_id=_first_text(values, "project_id", "project", "tenant"),
            is_admin=values.get("is_admin") is True,
            values=dict(values),
            patience=patience,
        )

    @property
    def timestamp(self) -> datetime.datetime | None:
        """When the request was made, by the sender's clock; None where the context does not say, or not readably."""
        try:
            time = datetime.datetime.fromisoformat(_first_text(self.values, "timestamp"))
        except ValueError:
            return None
        return time if time.tzinfo else time.replace(tzinfo=datetime.UTC)

    def is_abandoned(self, now: datetime.datetime) -> bool:
        """Whether the caller has given up: message and request are both older than it waits.

        The request alone may be old because its sender was slow; when the message was sent is only known by a bound.
        """
        made, timeout = self.timestamp, self.patience.timeout_seconds
        if made is None or timeout is None or timeout <= 0:
            return False
        return min((now - made).total_seconds(), self.patience.queued_seconds) > timeout

    @property
    def may_name_hosts(self) -> bool:
        """Whether the caller may say on which host a new server shall be; an admin may, unless the sender says no."""
        found = self.values.get("may_name_hosts")
        return found if isinstance(found, bool) else self.is_admin

    def caller(self) -> dict[str, Any]:
        """Who makes the request: user, project, roles and the like, by nova's names. Never with a token."""
        known = {name: self.values[name] for name in _PUBLIC_TEXTS if isinstance(self.values.get(name), str)}
        own = {"request_id": self.request_id, "user_id": self.user_id, "project_id": self.project_id}
        roles = self.values.get("roles")
        texts = [each for each in roles if isinstance(each, str)] if isinstance(roles, (list, tuple)) else []
        return (
            known | {name: text for name, text in own.items() if text} | {"is_admin": self.is_admin, "roles": texts}
        )

    def to_dict(self) -> dict[str, Any]:
        """The context as a message carries it."""
        own = {"request_id": self.request_id, "user_id": self.user_id, "project_id": self.project_id}
        return {**self.values, **own, "is_admin": self.is_admin}

    def when_answered(self, do: Callable[[], None]) -> None:
        """Defer this call until the reply was sent, so that the caller need not wait for it."""
        self._deferred.append(do)

    def answered(self) -> None:
        """Run the deferred calls. The server calls it after each reply, also after a failed one."""
        while self._deferred:
            try:
                self._deferred.pop(0)()
            except Exception:
                LOG.exception("%s: what was to be done after the answer failed", self.request_id)


def _first_text(values: Mapping[str, Any], *names: str) -> str:
    found = (values.get(name) for name in names)
    return next((each for each in found if isinstance(each, str) and each), "")


MAX_BYTES = 8 * 1024 * 1024
"""Size of a request. The largest that nova sends, for a thousand instances, has a hundredth of it."""
MAX_DEPTH = 64
"""Nesting of objects and lists. nova's requests have about fifteen levels."""


def encode(value: Any, what: str) -> str:
    """JSON text of the value. `what` names it in the MessageError where it is not JSON."""
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise MessageError(f"{what} cannot be sent: {error}", "messages are JSON") from None


def encode_request(message: Any, what: str) -> str:
    """JSON text of a request; MessageError where it is larger than a server accepts."""
    text = encode(message, what)
    if len(text) > MAX_BYTES:
        raise MessageError(f"{what} cannot be sent: {len(text)} bytes are more than {MAX_BYTES}")
    return text


def decode(text: str | bytes, max_bytes: int | None = MAX_BYTES) -> Any:
    """The value of a JSON text; MessageError where it is too large or too deep. `max_bytes`: None for no limit."""
    if max_bytes is not None and len(text) > max_bytes:
        raise MessageError(f"{len(text)} bytes, which is more than {max_bytes}")
    try:
        value = _DECODER.decode(text if isinstance(text, str) else text.decode())
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:  # also bytes that are not UTF-8
        raise MessageError(f"no JSON: {error}") from None
    if is_deeper_than(MAX_DEPTH, value):
        raise _too_deep()
    return value


def _too_deep() -> MessageError:
    return MessageError(f"objects within objects, more than {MAX_DEPTH} deep")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


_ENCODER = json.JSONEncoder(allow_nan=False)
_DECODER = json.JSONDecoder(parse_constant=_no_constant)
