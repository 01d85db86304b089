# SPDX-License-Identifier: Apache-2.0
"""New servers: what a client asks for in the API's words becomes a request to a conductor."""

from __future__ import annotations

import secrets
from typing import Any

from fastapi import Response

from roost.api.call import Call, CurrentCall, answer, named_in_body
from roost.api.compute.server_bodies import CreateBody, NewServer, check_new_server
from roost.api.compute.servers import DISK_CONFIG, server_links
from roost.client.interface import CloudClient
from roost.errors import UnknownName
from roost.records.flavor_catalogue import get_flavor
from roost.records.image_catalogue import get_image

CREATE = "os_compute_api:servers:create"
FORCED_HOST = "os_compute_api:servers:create:forced_host"
DESTINATION = "compute:servers:create:requested_destination"
"""Rules of hosts in a zone, ZONE:HOST, which skip the filters, and of hosts that have to pass them."""


def create_servers(body: CreateBody, call: CurrentCall) -> Response:
    """Begin to build servers. That no host fits is no error of the request: the servers say so."""
    wanted = body.server
    check_new_server(call, wanted)
    with named_in_body():
        request = _request(call, wanted, body.hints)
        made = _client(call, wanted).create_servers(request)
    if wanted.return_reservation_id:
        return answer({"reservation_id": made["reservation_id"]}, 202)
    uuid = made["servers"][0]["id"]
    links = server_links(call, uuid)
    found = {
        "id": uuid,
        "links": links,
        "OS-DCF:diskConfig": wanted.details().get("disk_config", DISK_CONFIG),
        "adminPass": admin_password(wanted.adminPass),
        "security_groups": [{"name": "default"}],
    }
    return answer({"server": found}, 202, {"Location": links[0]["href"]})


def admin_password(wanted: str | None) -> str:
    """The password that the answer names: the client's, or a new one. No guest is told it."""
    return wanted or secrets.token_urlsafe(9)


def find_flavor(call: Call, flavorid: str) -> str:
    """The id of a flavor that the caller may use; UnknownName where there is none."""
    found = get_flavor(call.parts.engine, flavorid)
    if not (found.is_public or call.is_admin):
        raise UnknownName(f"Flavor {flavorid} could not be found.")
    return found.flavorid


def find_image(call: Call, image_id: str) -> str:
    """The id of an image that the caller may use; UnknownName where there is none."""
    return get_image(call.parts.engine, image_id, None if call.is_admin else call.caller.project_id).id


def _request(call: Call, wanted: NewServer, hints: dict[str, Any]) -> dict[str, Any]:
    """The request to a conductor; values that the client left out are left out."""
    devices = (each.uuid for each in wanted.block_device_mapping_v2)
    image = wanted.imageRef or next(devices, None)
    found = {
        "name": wanted.name,
        "flavor": find_flavor(call, str(wanted.flavorRef)),
        "image": find_image(call, image) if image else None,
        "min_count": wanted.min_count,
        "max_count": wanted.max_count,
        "hints": hints,
        "availability_zone": wanted.availability_zone,
        "host": wanted.host,
        "node": wanted.hypervisor_hostname,
        **wanted.details(),
    }
    return {name: value for name, value in found.items() if value not in (None, {}, "")}


def _client(call: Call, wanted: NewServer) -> CloudClient:
    """A client of the conductors that may name a host if the request does, and the caller has the right."""
    rules = {
        FORCED_HOST: ":" in (wanted.availability_zone or ""),
        DESTINATION: wanted.host is not None or wanted.hypervisor_hostname is not None,
    }
    for rule, is_needed in rules.items():
        if is_needed:
            call.authorize(rule)
    return call.client_with(may_name_hosts=any(rules.values()))
