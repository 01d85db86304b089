# SPDX-License-Identifier: Apache-2.0
"""The interfaces that services use for messages; `InProcessTransport` and `BrokerTransport` implement them,
`LoopbackTransport` the part that clients need.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from roost.messages.context import RequestContext

Method = Callable[..., Any]
"""Called as `method(context, **args)`; arguments and result are JSON."""
OnRefusal = Callable[[], None]
"""Called for each message that was refused before a method was run."""


def ignore_refusals() -> None:
    """An OnRefusal that does nothing."""


@dataclass(frozen=True)
class Notification:
    """A notification as a listener gets it."""

    topic: str
    priority: str
    publisher_id: str
    event_type: str
    payload: Mapping[str, Any]
    context: RequestContext
    timestamp: str = field(default="", compare=False)
    """When it was made, by the sender's clock, as it was sent; empty where it does not say."""


OnNotification = Callable[[Notification], None]
"""Called with each notification that a listener takes, one after the other."""


class Endpoint(Protocol):
    """Methods of one major version. A server has an endpoint for each major version that it serves."""

    @property
    def version(self) -> str:
        """The newest version that it serves: with "4.5", 4.0 to 4.5 are served."""

    @property
    def methods(self) -> Mapping[str, Method]:
        """The methods by their names in messages."""


class RpcServer(Protocol):
    """Takes messages of a topic and answers each in a thread."""

    def start(self) -> None:
        """Take messages from now on; where the broker is away, as soon as it is back (see `is_connected`)."""

    def stop(self) -> None:
        """Take no new messages."""

    def wait(self) -> None:
        """Return when all taken messages have been answered. After `stop`."""

    @property
    def is_connected(self) -> bool:
        """Whether messages reach this server now."""


class Notifier(Protocol):
    """Sends notifications to listeners. Never fails and never waits for the broker."""

    @property
    def is_enabled(self) -> bool:
        """Whether notifications are sent at all; where not, no payload need be built."""

    @property
    def dropped(self) -> int:
        """Number of notifications since the start that were dropped because they could not be sent fast enough."""

    def info(self, context: RequestContext, event_type: str, payload: Mapping[str, Any]) -> None:
        """Send a notification of priority INFO."""

    def error(self, context: RequestContext, event_type: str, payload: Mapping[str, Any]) -> None:
        """Send a notification of priority ERROR."""


class CallingTransport(Protocol):
    """What a client needs of a transport: calls."""

    def call(
        self,
        topic: str,
        method: str,
        version: str,
        args: Mapping[str, Any],
        context: RequestContext,
        timeout: float,
        heartbeat_timeout: float | None = None,
    ) -> Any:
        """Have one server run the method, and return its result; wait at most `timeout` seconds.

        With `heartbeat_timeout` the server sends heartbeats while it works on the request, and that many seconds
        without one end the wait early. Raises an RpcError. A request is sent at most once.
        """


class Transport(CallingTransport, Protocol):
    """Carries messages. A topic is a queue that servers share; `TOPIC.SERVER` is the queue of one of them."""

    def cast(
        self,
        topic: str,
        method: str,
        version: str,
        args: Mapping[str, Any],
        context: RequestContext,
        fanout: bool = False,
    ) -> None:
        """Have one server, or all of them, run the method, without waiting for it."""

    def serve(
        self, topic: str, server_name: str, endpoints: Sequence[Endpoint], on_refusal: OnRefusal = ignore_refusals
    ) -> RpcServer:
        """A server for the topic, for `TOPIC.SERVER_NAME` and for casts to all servers. It is not started yet.

        `on_refusal` is called for each message that was refused before a method was run.
        """

    def notifier(self, publisher_id: str, topics: Sequence[str]) -> Notifier:
        """A notifier that sends to these topics as that publisher."""

    def listen(self, topic: str, event_types: Sequence[str], on_notification: OnNotification, pool: str) -> RpcServer:
        """A listener for notifications of these types, not started yet; it takes one after the other.

        `pool`: name of a queue of its own, so that it takes nothing from other listeners; empty: it shares theirs.
        """

    def close(self) -> None:
        """Close connections and end threads. Servers have to be stopped first."""
