# SPDX-License-Identifier: Apache-2.0
"""Finds the cloud that a command is for, and how it is asked: over its API, or by messages to a conductor.

| what is given | who is asked |
| --- | --- |
| `--os-cloud NAME` | the API of that cloud in clouds.yaml |
| `--config-file FILE` | a conductor, by messages over the broker that it names |
| OS_CLOUD or OS_AUTH_URL | the API of that cloud |
| a transport_url in the usual configuration | a conductor |
| nothing | the `roost dev` of this user: its API as the user `admin`, or its socket where it serves none |
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from roost.client.cloud_access import CloudAccess, find_access, read_access
from roost.client.interface import CommandClient
from roost.client.rpc_client import RpcClient
from roost.errors import BadInput, RpcUnreachable
from roost.messages.context import RequestContext
from roost.messages.loopback import LoopbackTransport, find_dev_cloud
from roost.messages.open_transport import open_transport
from roost.messages.oslo import RpcOptions
from roost.options.settings import DEFAULT_ORIGIN, Settings

if TYPE_CHECKING:
    from roost.client.api_client import ApiClient

OPERATOR = "admin"
"""User and project of an operator, whose right is that the broker lets them in."""
DEV_CLOUD = "roost"
"""Name of the cloud in the clouds.yaml of `roost dev` whose user is the administrator."""
CLOUDS_FILE = "clouds.yaml"
_START_ONE = (
    "start one: roost dev; or name one: --os-cloud NAME, or the configuration of its broker: --config-file FILE"
)


class OpenedClient(CommandClient, Protocol):
    """A client of a cloud that has to be closed."""

    def close(self) -> None:
        """End its connections."""


def open_client(
    settings: Settings, files: Sequence[Path], project: str | None = None, cloud: str | None = None
) -> OpenedClient:
    """A client of the cloud that is meant, found as the table above says.

    `files`: of the configuration; `cloud`: its name in clouds.yaml. `project`: of servers that are created; over an
    API its name or id, and where it is None the one that is signed in to. RpcUnreachable where no cloud is known.
    """
    access = _find_api(settings, files, cloud)
    if access is not None:
        return _open_api(access, project)
    options = settings.fill(RpcOptions)
    context = RequestContext.new(f"req-{uuid.uuid4()}", OPERATOR, project or OPERATOR, is_admin=True)
    if files or _names_broker(settings):
        transport = open_transport(options, files)
        return RpcClient(transport, options, context, transport.close)
    return RpcClient(LoopbackTransport(_dev_socket()), RpcOptions(), context)


def open_api(settings: Settings, cloud: str | None = None, project: str | None = None) -> ApiClient:
    """A client of the API of the cloud that is meant; BadInput where that cloud is only known by its broker."""
    access = _find_api(settings, (), cloud)
    if access is None and not _names_broker(settings):
        _dev_socket()
    if access is None:
        raise BadInput("this is asked over the API of a cloud, and none is named", "add --os-cloud NAME")
    return _open_api(access, project)


def _open_api(access: CloudAccess, project: str | None) -> ApiClient:
    from roost.client.api_client import ApiClient  # needs requests, a tenth of a second

    return ApiClient(access.in_project(project) if project else access)


def _find_api(settings: Settings, files: Sequence[Path], cloud: str | None) -> CloudAccess | None:
    """The API to ask; None where it is a conductor."""
    if (cloud is not None or not files) and (access := find_access(cloud)):
        return access
    if files or _names_broker(settings):
        return None
    clouds = _dev_socket().with_name(CLOUDS_FILE)
    return read_access(clouds, DEV_CLOUD) if clouds.is_file() else None


def _names_broker(settings: Settings) -> bool:
    return settings.origin("DEFAULT", "transport_url") != DEFAULT_ORIGIN


def _dev_socket() -> Path:
    """The socket of the `roost dev` that this user runs; RpcUnreachable where none runs."""
    path = find_dev_cloud()
    if path is None:
        raise RpcUnreachable(
            "no cloud is known here: no roost dev is running, and no transport_url is set", _START_ONE
        )
    return path
