# SPDX-License-Identifier: Apache-2.0
"""Finds the cloud that a command is for."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path

from roost.client.rpc_client import RpcClient
from roost.config import Settings
from roost.config.settings import DEFAULT_ORIGIN
from roost.errors import RpcUnreachable
from roost.rpc.context import RequestContext
from roost.rpc.loopback_address import find_dev_cloud
from roost.rpc.loopback_client import LoopbackTransport
from roost.rpc.open_transport import open_transport
from roost.rpc.options import RpcOptions

OPERATOR = "admin"
"""User and project of an operator, whose right is that the broker lets them in."""


def open_client(settings: Settings, files: Sequence[Path], project_id: str = OPERATOR) -> RpcClient:
    """A client of the configured cloud; without any configuration, of the `roost dev` that this user runs.

    `project_id`: of servers that are created. RpcUnreachable where there is neither.
    """
    options = settings.fill(RpcOptions)
    context = RequestContext.new(f"req-{uuid.uuid4()}", OPERATOR, project_id, is_admin=True)
    if not files and settings.origin("DEFAULT", "transport_url") == DEFAULT_ORIGIN:
        path = find_dev_cloud()
        if path is None:
            hint = "start one: roost dev; or name the configuration of a cloud: --config-file FILE"
            raise RpcUnreachable("no cloud is known here: no roost dev is running, and no transport_url is set", hint)
        return RpcClient(LoopbackTransport(path), RpcOptions(), context)
    transport = open_transport(options, files)
    return RpcClient(transport, options, context, transport.close)
