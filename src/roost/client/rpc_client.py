# SPDX-License-Identifier: Apache-2.0
"""Finds the cloud that a command is for and how it is asked; `RpcClient` asks a conductor, by messages.

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
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from roost.client.cloud_access import CloudAccess, find_access, read_access
from roost.client.interface import CommandClient, Record
from roost.errors import BadInput, MessageError, RpcTimeout, RpcUnreachable
from roost.messages.context import RequestContext
from roost.messages.dispatcher import as_own_errors, call_conductor, read_from_conductor
from roost.messages.interface import CallingTransport
from roost.messages.loopback import LoopbackTransport, find_dev_cloud
from roost.messages.open_transport import open_transport
from roost.messages.options import RpcOptions
from roost.options.settings import DEFAULT_ORIGIN, Settings

if TYPE_CHECKING:
    from roost.client.api_client import ApiClient


PAGE_SIZE = 1000
"""Servers in one answer; conductors send no more."""
ASK_AGAIN = "is a conductor running?"
START_ONE = "start one: roost service conductor; or a whole cloud: roost dev"
Call = Callable[[CallingTransport, RpcOptions, RequestContext, str, Mapping[str, Any]], Any]
"""A function that sends a request to a conductor and returns its answer."""


class RpcClient:
    """Calls to conductors, in the name of one caller."""

    def __init__(
        self,
        transport: CallingTransport,
        options: RpcOptions,
        context: RequestContext,
        close: Callable[[], None] = lambda: None,
    ) -> None:
        """`context`: who asks. `close`: ends the transport, where it is this client's own."""
        self._transport, self._options, self._context, self.close = transport, options, context, close

    def create_servers(self, request: Mapping[str, Any], dry_run: bool = False) -> Record:
        """Begin to build servers, all or none."""
        return self._ask("create_servers", request=dict(request), dry_run=dry_run)

    def list_servers(self, filters: Mapping[str, str]) -> list[Record]:
        """The servers that match all filters: all pages, or the one that `limit` and `after` among them name."""
        if "limit" in filters:
            return self._list("list_servers", "servers", filters=dict(filters))
        found: list[Record] = []
        while True:
            after = {"after": found[-1]["id"]} if found else {}
            page = self._list("list_servers", "servers", filters={**filters, **after, "limit": PAGE_SIZE})
            found += page
            if len(page) < PAGE_SIZE:
                return found

    def get_server(self, server: str) -> Record:
        """One server, by uuid or name."""
        return self._read("get_server", server=server)

    def delete_server(self, server: str, dry_run: bool = False) -> Record:
        """Begin to delete a server."""
        return self._ask("delete_server", server=server, dry_run=dry_run)

    def start_server(self, server: str, dry_run: bool = False) -> Record:
        """Begin to start a stopped server."""
        return self._ask("start_server", server=server, dry_run=dry_run)

    def stop_server(self, server: str, dry_run: bool = False) -> Record:
        """Begin to stop a server."""
        return self._ask("stop_server", server=server, dry_run=dry_run)

    def resize_server(
        self, server: str, flavor: str, dry_run: bool = False, details: Mapping[str, Any] | None = None
    ) -> Record:
        """Begin to give a server another flavor."""
        return self._ask("resize_server", server=server, flavor=flavor, dry_run=dry_run, **_written(details))

    def confirm_resize(self, server: str, dry_run: bool = False) -> Record:
        """Begin to remove what a resized server left on its former host."""
        return self._ask("confirm_resize", server=server, dry_run=dry_run)

    def revert_resize(self, server: str, dry_run: bool = False) -> Record:
        """Begin to bring a resized server back."""
        return self._ask("revert_resize", server=server, dry_run=dry_run)

    def migrate_server_cold(self, server: str, host: str | None = None, dry_run: bool = False) -> Record:
        """Begin to move a server to another host, stopped meanwhile."""
        return self._ask("migrate_server_cold", server=server, host=host, dry_run=dry_run)

    def live_migrate_server(
        self, server: str, host: str | None = None, force: bool = False, dry_run: bool = False
    ) -> Record:
        """Begin to move a running server to another host."""
        return self._ask("live_migrate_server", server=server, host=host, force=force, dry_run=dry_run)

    def evacuate_server(
        self, server: str, host: str | None = None, force: bool = False, dry_run: bool = False
    ) -> Record:
        """Begin to rebuild a server whose host is down on another one."""
        return self._ask("evacuate_server", server=server, host=host, force=force, dry_run=dry_run)

    def shelve_server(self, server: str, dry_run: bool = False) -> Record:
        """Begin to take a server off its host."""
        return self._ask("shelve_server", server=server, dry_run=dry_run)

    def unshelve_server(
        self, server: str, host: str | None = None, availability_zone: str | None = None, dry_run: bool = False
    ) -> Record:
        """Begin to bring a shelved server onto a host."""
        where = {"host": host, "availability_zone": availability_zone}
        return self._ask("unshelve_server", server=server, dry_run=dry_run, **where)

    def rebuild_server(
        self,
        server: str,
        image: str | None = None,
        dry_run: bool = False,
        details: Mapping[str, Any] | None = None,
    ) -> Record:
        """Begin to build a server anew where it is."""
        return self._ask("rebuild_server", server=server, image=image, dry_run=dry_run, **_written(details))

    def update_server(self, server: str, changes: Mapping[str, Any], dry_run: bool = False) -> Record:
        """Change what clients write on a server."""
        return self._ask("update_server", server=server, changes=dict(changes), dry_run=dry_run)

    def set_server_metadata(
        self, server: str, metadata: Mapping[str, str], replace: bool = False, dry_run: bool = False
    ) -> Record:
        """Add entries to the metadata of a server, or have it no others."""
        values = {"metadata": dict(metadata), "replace": replace}
        return self._ask("set_server_metadata", server=server, dry_run=dry_run, **values)

    def delete_server_metadata(self, server: str, key: str, dry_run: bool = False) -> Record:
        """Remove an entry from the metadata of a server."""
        return self._ask("delete_server_metadata", server=server, key=key, dry_run=dry_run)

    def reset_server_state(self, server: str, state: str, dry_run: bool = False) -> Record:
        """Give a server the state active or error."""
        return self._ask("reset_server_state", server=server, state=state, dry_run=dry_run)

    def list_hosts(self) -> list[Record]:
        """All hosts."""
        return self._list("list_hosts", "hosts")

    def get_host(self, host: str) -> Record:
        """One host."""
        return self._read("get_host", host=host)

    def set_host(
        self,
        host: str,
        disabled: bool | None = None,
        reason: str | None = None,
        forced_down: bool | None = None,
        dry_run: bool = False,
    ) -> Record:
        """Say whether a host may get servers, and whether it is known to be down."""
        values = {"disabled": disabled, "reason": reason, "forced_down": forced_down}
        return self._ask("set_host", host=host, dry_run=dry_run, **values)

    def list_migrations(self, server: str | None = None, host: str | None = None) -> list[Record]:
        """Migrations of a server, from or to a host, or all."""
        return self._list("list_migrations", "migrations", server=server, host=host)

    def list_decisions(self, filters: Mapping[str, Any]) -> list[Record]:
        """Decisions that match all filters, the latest first."""
        return self._list("list_decisions", "decisions", filters=dict(filters))

    def get_decision(self, decision: str, with_state: bool = False) -> Record:
        """A decision by its id, by the id of its request, or the latest about a server."""
        return self._read("get_decision", decision=decision, with_state=with_state)

    def list_flavors(self) -> list[Record]:
        """All flavors."""
        return self._list("list_flavors", "flavors")

    def list_images(self) -> list[Record]:
        """All images."""
        return self._list("list_images", "images")

    def get_snapshot(self) -> Record:
        """The content of a snapshot file, as base64."""
        try:  # a large cloud takes longer than other answers
            return self._answer(call_conductor, "get_snapshot", {})
        except RpcTimeout as error:
            raise RpcTimeout(f"the conductor has not answered: {error.message}", ASK_AGAIN) from None

    def _list(self, method: str, key: str, **args: Any) -> list[Record]:
        found = self._read(method, **args).get(key)
        if not isinstance(found, list):
            raise MessageError(f"{method}: the conductor's answer has no {key}")
        return found

    def _read(self, method: str, **args: Any) -> Record:
        """The answer of a conductor to a question that changes nothing."""
        try:
            return self._answer(read_from_conductor, method, args)
        except RpcTimeout as error:
            raise RpcTimeout(f"the conductor has not answered: {error.message}", ASK_AGAIN) from None

    def _ask(self, method: str, **args: Any) -> Record:
        """The answer of a conductor that is to change something, or to plan it."""
        try:
            return self._answer(call_conductor, method, args)
        except RpcTimeout as error:
            hint = "whether it was done is not known: look at the server; the conductor's log says more"
            raise RpcTimeout(f"the conductor has not answered: {error.message}", hint) from None

    def _answer(self, call: Call, method: str, args: Mapping[str, Any]) -> Record:
        """The answer to a call. Expected errors of the conductor are raised as the same class as there."""
        try:
            with as_own_errors():
                answer = call(self._transport, self._options, self._context, method, args)
        except RpcUnreachable as error:
            raise RpcUnreachable(f"no conductor can be reached: {error.message}", error.hint or START_ONE) from None
        if not isinstance(answer, dict):
            raise MessageError(f"{method}: the conductor's answer is no object")
        return answer


def _written(details: Mapping[str, Any] | None) -> dict[str, Any]:
    """The argument for what is written on a server with a change; left out where it is nothing."""
    return {"details": details} if details else {}


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
