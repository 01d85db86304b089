# SPDX-License-Identifier: Apache-2.0
"""What services know of messages. `InProcessTransport` and `BrokerTransport` are the two ways they travel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from roost.rpc.context import RequestContext

Method = Callable[..., Any]
"""Called as `method(context, **args)`; arguments and result are JSON."""
OnRefusal = Callable[[], None]


def ignore() -> None:
    """For those who do not count refusals."""


class Endpoint(Protocol):
    """Methods of one major version. A server has one for each major that it still understands."""

    @property
    def version(self) -> str:
        """The newest it understands, such as "4.5": it takes 4.0 to 4.5."""

    @property
    def methods(self) -> Mapping[str, Method]:
        """By their names in messages."""


class RpcServer(Protocol):
    """Takes messages from a topic and answers them, each in a thread."""

    def start(self) -> None:
        """Take messages from now on. Where the broker is away, this begins when it is back; see `is_connected`."""

    def stop(self) -> None:
        """Take no new messages."""

    def wait(self) -> None:
        """Come back when those that were taken have been answered. After `stop`."""

    @property
    def is_connected(self) -> bool:
        """Whether messages reach this server now."""


class Notifier(Protocol):
    """Tells whoever listens what happened. Never fails and never waits for the broker."""

    @property
    def is_enabled(self) -> bool:
        """Whether anything is sent at all; a payload need not be made where it is not."""

    @property
    def dropped(self) -> int:
        """Notifications that were given up since the start, because they could not be sent fast enough."""

    def info(self, context: RequestContext, event_type: str, payload: Mapping[str, Any]) -> None:
        """Something happened."""

    def error(self, context: RequestContext, event_type: str, payload: Mapping[str, Any]) -> None:
        """Something went wrong."""


class Transport(Protocol):
    """Carries messages. A topic is a queue that servers share; `TOPIC.SERVER` is the queue of one of them."""

    def call(
        self,
        topic: str,
        method: str,
        version: str,
        args: Mapping[str, Any],
        context: RequestContext,
        timeout: float,
        sign_of_life: float | None = None,
    ) -> Any:
        """Ask one server and wait for its answer, at most `timeout` seconds.

        With `sign_of_life` the server says every now and then that it is still at it; hearing nothing for that many
        seconds ends the wait early. Raises an RpcError; a request is sent once, never again.
        """

    def cast(
        self,
        topic: str,
        method: str,
        version: str,
        args: Mapping[str, Any],
        context: RequestContext,
        fanout: bool = False,
    ) -> None:
        """Tell one server, or all of them, and wait for nothing."""

    def serve(
        self, topic: str, server_name: str, endpoints: Sequence[Endpoint], on_refusal: OnRefusal = ignore
    ) -> RpcServer:
        """A server for the topic, for `TOPIC.SERVER_NAME` and for what is told to all. It is not started yet.

        `on_refusal` hears of messages that no method was run for.
        """

    def notifier(self, publisher_id: str, topics: Sequence[str]) -> Notifier:
        """Sends notifications to these topics, in that publisher's name."""

    def close(self) -> None:
        """Let go of connections and threads. Servers are to be stopped first."""
