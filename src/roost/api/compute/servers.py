# SPDX-License-Identifier: Apache-2.0
"""Servers one by one: shown, renamed, deleted. Lists are in `server_list.py`, new ones in `new_servers.py`.

What an answer has follows from its microversion, and from what the caller may see.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fastapi import Response
from pydantic import ConfigDict

from roost.api.call import Call, CurrentCall, accepted, answer, owner_of
from roost.api.compute.body_types import ABSENT, Body, Name
from roost.api.compute.server_bodies import SINCE, WrittenDetails, check_keys
from roost.api.compute.services import seconds_until_down
from roost.api.microversions import naive_time, utc_text, v
from roost.model import Flavor, Image, Service
from roost.records.group_catalogue import read_groups_of_server
from roost.records.server import NO_STATE, RUNNING, SHUTDOWN, Fault, Server, hostname_of, status_of
from roost.records.server_views import shows_fault
from roost.records.services import read_agents_on

Json = dict[str, Any]

ATTRIBUTES = "os_compute_api:os-extended-server-attributes"
HOST_STATUS = "os_compute_api:servers:show:host_status"
EXTRA_SPECS = "os_compute_api:servers:show:flavor-extra-specs"

ALL_AFTER_CHANGES, HOSTNAME_FOR_ALL = v(75), v(90)
_NOT_AFTER_CHANGES = (
    *("OS-EXT-AZ:", "OS-EXT-STS:", "OS-EXT-SRV-ATTR:", "OS-SRV-USG:", "os-extended-volumes:"),
    *("config_drive", "host_status", "key_name", "security_groups"),
)
"""How the keys begin that the answers to updates and rebuilds have not before that."""
DISK_CONFIG = "MANUAL"
"""Of a server of which a client said nothing."""
NO_FLAVOR = Flavor(vcpus=0, memory_mb=0)
"""In place of the flavor of an imported server, which has none."""
_POWER_STATES = {NO_STATE: 0, RUNNING: 1, SHUTDOWN: 4}
_WITH_PROGRESS = ("ACTIVE", "BUILD", "MIGRATING", "REBUILD", "RESIZE", "VERIFY_RESIZE")
_NO_HOST, _UP, _UNKNOWN, _DOWN, _MAINTENANCE = "", "UP", "UNKNOWN", "DOWN", "MAINTENANCE"


@dataclass(frozen=True)
class _Beside:
    """What answers about servers need beside their records."""

    may: Callable[[str, Server], bool]
    """Whether a rule allows the caller to see something of a server."""
    is_admin: bool
    faults: Mapping[str, Fault]
    """By uuid of the server."""
    agents: Mapping[str, Service]
    """By host."""


def describe_briefly(call: Call, server: Server) -> Json:
    """A server in the short list: id, name and links."""
    return {"id": server.uuid, "name": server.name, "links": server_links(call, server.uuid)}


def describe_servers(call: Call, servers: Sequence[Server]) -> list[Json]:
    """Servers with all details, in a number of statements that does not grow with them."""
    beside = _read_beside(call, servers)
    return [_ServerView(call, each, beside).to_json() for each in servers]


def describe_server(call: Call, server: Server) -> Json:
    """A server with all details, and with the groups that it is a member of."""
    (found,) = describe_servers(call, [server])
    if call.version >= v(71):
        found["server_groups"] = read_groups_of_server(call.parts.engine, server.uuid)
    return found


def describe_changed_server(call: Call, server: Server) -> Json:
    """A server as the answer to its update or rebuild has it: since 2.75 with all details, before with fewer."""
    found = describe_server(call, server)
    if call.version >= ALL_AFTER_CHANGES:
        return found
    return {key: value for key, value in found.items() if not key.startswith(_NOT_AFTER_CHANGES)}


def server_links(call: Call, uuid: str) -> list[Json]:
    """Where a server is found."""
    paths = {"self": f"/v2.1/servers/{uuid}", "bookmark": f"/servers/{uuid}"}
    return [{"rel": name, "href": call.link(path)} for name, path in paths.items()]


def _read_beside(call: Call, servers: Sequence[Server]) -> _Beside:
    parts, may = call.parts, _remembered_rights(call)
    has_status = call.version >= v(16)
    hosts = {each.host for each in servers if has_status and each.host and may(HOST_STATUS, each)}
    agents = read_agents_on(parts.engine, sorted(hosts), parts.servers.times, seconds_until_down(call))
    faults = parts.servers.read_latest_faults([each.uuid for each in servers if shows_fault(each)])
    return _Beside(may, call.is_admin, faults, agents)


def _remembered_rights(call: Call) -> Callable[[str, Server], bool]:
    """Whether a rule allows something for a server; asked once for all servers of one owner."""
    known: dict[tuple[str, str | None, str | None], bool] = {}

    def may(rule: str, server: Server) -> bool:
        key = rule, server.project_id, server.user_id
        if key not in known:
            known[key] = call.allows(rule, owner_of(server))
        return known[key]

    return may


class _ServerView:
    """One server as one caller sees it."""

    def __init__(self, call: Call, server: Server, beside: _Beside) -> None:
        self._call, self._server, self._beside = call, server, beside
        self._status = status_of(server.vm_state, server.task_state)

    def to_json(self) -> Json:
        """All that the microversion has and the caller may see."""
        flavor, image = self._server.flavor_and_image
        made_of = {"flavor": self._flavor(flavor or NO_FLAVOR), "image": self._image(image)}
        return {
            **self._basic(),
            **made_of,
            **self._states(),
            **self._attributes(),
            **self._fault(),
            **self._added(),
            **self._host_status(),
        }

    def _basic(self) -> Json:
        server = self._server
        return {
            **describe_briefly(self._call, server),
            "status": self._status,
            "tenant_id": server.project_id,
            "user_id": server.user_id,
            "metadata": dict(server.metadata),
            "hostId": _host_id(server),
            "created": utc_text(server.created_at),
            "updated": utc_text(server.updated_at or server.created_at),
            "addresses": {},
            "accessIPv4": server.access_ip_v4 or "",
            "accessIPv6": server.access_ip_v6 or "",
            "key_name": None,
            "config_drive": "",
            "security_groups": [{"name": "default"}],
            "os-extended-volumes:volumes_attached": [],
            "OS-DCF:diskConfig": server.disk_config or DISK_CONFIG,
            **({"progress": 0} if self._status in _WITH_PROGRESS else {}),
        }

    def _states(self) -> Json:
        server = self._server
        return {
            "OS-EXT-AZ:availability_zone": server.availability_zone or "",
            "OS-EXT-STS:power_state": _POWER_STATES.get(server.power_state or NO_STATE, 0),
            "OS-EXT-STS:task_state": server.task_state,
            "OS-EXT-STS:vm_state": server.vm_state,
            "OS-SRV-USG:launched_at": naive_time(server.launched_at),
            "OS-SRV-USG:terminated_at": naive_time(server.deleted_at),
        }

    def _attributes(self) -> Json:
        """What only callers may see who know the hosts; since 2.90 all see the host name of the guest."""
        server, hostname = self._server, {"OS-EXT-SRV-ATTR:hostname": _hostname(self._server)}
        if not self._beside.may(ATTRIBUTES, server):
            return hostname if self._call.version >= HOSTNAME_FOR_ALL else {}
        found: Json = {
            "host": server.host,
            "hypervisor_hostname": server.node,
            "instance_name": f"roost-{server.uuid}",
        }
        if self._call.version >= v(3):
            found |= {"reservation_id": server.reservation_id or "", "launch_index": server.launch_index or 0}
            found |= {"kernel_id": "", "ramdisk_id": "", "user_data": None, "root_device_name": None}
        shown = {f"OS-EXT-SRV-ATTR:{name}": value for name, value in found.items()}
        return shown | (hostname if self._call.version >= v(3) else {})

    def _fault(self) -> Json:
        fault = self._beside.faults.get(self._server.uuid)
        if fault is None:
            return {}
        found = {"code": fault.code, "message": fault.message, "created": utc_text(fault.created_at)}
        return {"fault": found | ({"details": fault.details} if self._beside.is_admin else {})}

    def _flavor(self, flavor: Flavor) -> Json:
        flavorid = flavor.flavorid or flavor.name
        if self._call.version < v(47):
            return {"id": flavorid, "links": self._bookmark("flavors", flavorid)}
        found = {
            "original_name": flavor.name,
            "vcpus": flavor.vcpus,
            "ram": flavor.memory_mb,
            "disk": flavor.root_gb,
            "ephemeral": flavor.ephemeral_gb,
            "swap": flavor.swap,
        }
        if self._beside.may(EXTRA_SPECS, self._server):
            found["extra_specs"] = dict(flavor.extra_specs)
        return found

    def _image(self, image: Image | None) -> Json | str:
        image_id = self._server.image_id or (image.id if image else None)
        if image_id is None:
            return ""
        found: Json = {"id": image_id, "links": self._bookmark("images", image_id)}
        if self._call.version >= v(98):
            found["properties"] = (
                {name: _plain(each) for name, each in image.properties.to_dict().items()} if image else {}
            )
        return found

    def _bookmark(self, collection: str, own: str) -> list[Json]:
        return [{"rel": "bookmark", "href": self._call.link(f"/{collection}/{own}")}]

    def _added(self) -> Json:
        """Keys that came with a microversion."""
        version = self._call.version
        return {name: value(self) for minor, name, value in _ADDED if version >= v(minor)}

    def _host_status(self) -> Json:
        if self._call.version < v(16) or not self._beside.may(HOST_STATUS, self._server):
            return {}
        return {"host_status": _host_status(self._server.host, self._beside.agents)}

    @cached_property
    def hints_and_zone(self) -> tuple[Mapping[str, tuple[str, ...]], str | None]:
        """The scheduler hints of the server, and the zone that it is to stay in."""
        return self._server.hints_and_zone

    @property
    def description(self) -> str | None:
        """What a client wrote."""
        return self._server.description


_ADDED: tuple[tuple[int, str, Callable[[_ServerView], Any]], ...] = (
    (9, "locked", lambda _: False),
    (19, "description", lambda view: view.description),
    (26, "tags", lambda _: []),
    (63, "trusted_image_certificates", lambda _: None),
    (73, "locked_reason", lambda _: None),
    (96, "pinned_availability_zone", lambda view: view.hints_and_zone[1]),
    (100, "scheduler_hints", lambda view: {name: list(each) for name, each in view.hints_and_zone[0].items()}),
)
"""Minor number of the microversion, key, value."""


def _host_status(host: str | None, agents: Mapping[str, Service]) -> str:
    """What the service of the server's host is, in one of nova's words."""
    if host is None:
        return _NO_HOST
    agent = agents.get(host)
    if agent is None:
        return _UNKNOWN
    if agent.forced_down:
        return _DOWN
    if agent.disabled:
        return _MAINTENANCE
    return _UP if agent.up else _UNKNOWN


def _hostname(server: Server) -> str:
    """The host name of its guest; of an imported server one made of its name."""
    return server.hostname or hostname_of(server.name)


def _host_id(server: Server) -> str:
    """By this, members see which of their servers share a host, and not which host that is; empty without a host."""
    return hashlib.sha224(f"{server.project_id}{server.host}".encode()).hexdigest() if server.host else ""


def _plain(value: Any) -> Any:
    """The value of an image property as JSON can carry it."""
    if isinstance(value, set | frozenset):
        return sorted(value)
    return [_plain(each) for each in value] if isinstance(value, list) else value


SHOW, UPDATE, DELETE = (f"os_compute_api:servers:{name}" for name in ("show", "update", "delete"))


class ServerChanges(WrittenDetails):
    """What of a server a client can change."""

    name: Name = ABSENT


class UpdateBody(Body):
    """The body of a change."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"server": {"name": "web-1", "description": "front"}}]})

    server: ServerChanges


def show_server(server_id: str, call: CurrentCall) -> Response:
    """A server with all that is known of it."""
    return answer({"server": describe_server(call, call.find_server(server_id, SHOW))})


def update_server(server_id: str, body: UpdateBody, call: CurrentCall) -> Response:
    """Give a server another name, description, host name, and the like."""
    found = call.find_server(server_id, UPDATE)
    check_keys(call, body.server, SINCE, {})
    if wanted := body.server.details():
        call.client.update_server(found.uuid, wanted)
    return answer({"server": describe_changed_server(call, call.find_server(server_id, UPDATE))})


def delete_server(server_id: str, call: CurrentCall) -> Response:
    """Begin to delete a server."""
    call.client.delete_server(call.find_server(server_id, DELETE).uuid)
    return accepted(204)
