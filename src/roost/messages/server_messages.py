# SPDX-License-Identifier: Apache-2.0
"""Messages about servers, to conductors and agents: all have the same two arguments, uuid and generation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roost.messages.context import RequestContext
from roost.messages.interface import CallingTransport, Transport
from roost.messages.options import RpcOptions

CONDUCTOR_VERSION, AGENT_VERSION = "1.0", "1.0"
"""Newest versions of the messages that conductors and agents take."""
READ_HEARTBEAT_SECONDS = 10.0
"""How long a caller that only reads waits for a heartbeat: asking again changes nothing, so it may give up early."""


def call_conductor(
    transport: CallingTransport, options: RpcOptions, context: RequestContext, method: str, args: Mapping[str, Any]
) -> Any:
    """Have a conductor change something, and wait for its answer as long as it sends heartbeats."""
    timeout, heartbeat = float(options.long_rpc_timeout), float(options.rpc_response_timeout)
    return transport.call(options.conductor_topic, method, CONDUCTOR_VERSION, args, context, timeout, heartbeat)


def read_from_conductor(
    transport: CallingTransport, options: RpcOptions, context: RequestContext, method: str, args: Mapping[str, Any]
) -> Any:
    """Ask a conductor for something that changes nothing; gives up early where no conductor sends heartbeats."""
    timeout = float(options.rpc_response_timeout)
    heartbeat = min(timeout, READ_HEARTBEAT_SECONDS)
    return transport.call(options.conductor_topic, method, CONDUCTOR_VERSION, args, context, timeout, heartbeat)


class ServerMessages:
    """Sends messages to conductors and agents."""

    def __init__(self, transport: Transport, options: RpcOptions) -> None:
        self._transport, self._options = transport, options

    def wake(self, context: RequestContext, host: str | None, method: str, server_uuid: str, generation: int) -> None:
        """Have the agent on a host, or a conductor if the host is None, go on with a server; does not wait for it."""
        args = {"server_uuid": server_uuid, "generation": generation}
        if host is None:
            self._transport.cast(self._options.conductor_topic, method, CONDUCTOR_VERSION, args, context)
        else:
            self._transport.cast(self.queue_of(host), method, AGENT_VERSION, args, context)

    def call_agent(self, context: RequestContext, host: str, method: str, args: Mapping[str, Any]) -> Any:
        """Ask the agent on a host something, and wait for its answer."""
        timeout = float(self._options.rpc_response_timeout)
        return self._transport.call(self.queue_of(host), method, AGENT_VERSION, args, context, timeout)

    def call_conductor(self, context: RequestContext, method: str, args: Mapping[str, Any]) -> Any:
        """Ask a conductor something, and wait for its answer."""
        return call_conductor(self._transport, self._options, context, method, args)

    def queue_of(self, host: str) -> str:
        """Name of the queue of the agent on a host."""
        return f"{self._options.compute_topic}.{host}"
