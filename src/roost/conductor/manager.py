# SPDX-License-Identifier: Apache-2.0
"""What a conductor can be asked. Start reading at `PARTS`: each part has the methods of one subject.

| caller | methods | form |
| --- | --- | --- |
| clients | create_servers, delete_server, list_hosts, ... | checks, takes the first step, answers, goes on after that |
| agents and conductors | build_instances, delete_unplaced, ... | context, server_uuid, generation; not answered |
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from roost.conductor.builds import Builds
from roost.conductor.conductor_parts import ConductorParts, Part
from roost.conductor.deletes_and_power import DeletesAndPower
from roost.conductor.hosts_view import HostsView
from roost.conductor.servers_view import ServersView
from roost.observe.logs import bound
from roost.rpc import RequestContext
from roost.rpc.client_errors import as_client_errors
from roost.rpc.interface import Method
from roost.rpc.server_messages import CONDUCTOR_VERSION
from roost.rpc.wire_errors import is_expected

PARTS: Sequence[Callable[[ConductorParts], Part]] = (Builds, DeletesAndPower, ServersView, HostsView)
"""Classes of parts, in the order in which their methods are looked for."""


@dataclass(frozen=True)
class ConductorEndpoint:
    """The RPC methods of a conductor."""

    methods: Mapping[str, Method]
    version: str = CONDUCTOR_VERSION


class ConductorManager:
    """The methods of all parts. Thread-safe."""

    def __init__(self, parts: ConductorParts) -> None:
        self._parts = parts
        self.methods: Mapping[str, Method] = {
            name: self._measured(name, method) for make in PARTS for name, method in make(parts).methods.items()
        }

    def _measured(self, name: str, method: Method) -> Method:
        """A method that counts calls, failures and time, and whose errors the client can raise again."""

        @functools.wraps(method)
        def measuring(context: RequestContext, **arguments: Any) -> Any:
            clock, metrics = self._parts.clock, self._parts.metrics
            started, result = clock.monotonic(), "error"
            try:
                with bound(request_id=context.request_id), as_client_errors():
                    answer = method(context, **arguments)
                result = "ok"
                return answer
            except Exception as error:
                result = "expected_error" if is_expected(error) else "error"
                raise
            finally:
                metrics.rpc_handled(name, result, clock.monotonic() - started)

        return measuring
