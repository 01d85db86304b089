# SPDX-License-Identifier: Apache-2.0
"""A `CommandClient` that asks the API of a cloud.

Servers, hosts and decisions are read from Roost's own resources, which say as much as conductors do; what changes
servers and hosts is asked of the compute API, as `openstack` asks it.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from roost.client.api_catalogue import ApiCatalogue
from roost.client.api_problems import no_valid_host
from roost.client.api_session import COMPUTE, ROOST, ApiSession
from roost.client.cloud_access import CloudAccess
from roost.client.interface import Record
from roost.errors import ApiError, BadInput, UnknownName

_HOST_EXTRAS = ("id", "vcpus_free", "memory_mb_free", "disk_gb_free")
"""What the API tells of a host that conductors do not."""
FORCING = "2.67"
"""Last microversion in which a host can be taken without asking a scheduler."""


class ApiClient:
    """Calls to the API of a cloud, in the name of the user who signs in."""

    def __init__(self, access: CloudAccess) -> None:
        self._session = ApiSession(access)
        self.catalogue = ApiCatalogue(self._session)
        """Flavors, images, aggregates and server groups, which conductors do not change."""

    def close(self) -> None:
        """End the connections."""
        self._session.close()

    # --- servers -----------------------------------------------------------------------------------------

    def create_servers(self, request: Mapping[str, Any], dry_run: bool = False) -> Record:
        """Begin to build servers, all or none."""
        if not isinstance(request["flavor"], str):
            hint = "make a flavor: roost flavor create NAME --vcpus N --ram MIB --disk GB"
            raise BadInput("the API of a cloud gives servers the size of a flavor", hint)
        if dry_run:
            return self._plan("/plan", {"server": {name: value for name, value in request.items() if value}})
        reservation = self._session.call(COMPUTE, "POST", "/servers", self._new_servers(request))
        made = self.list_servers({"reservation_id": reservation["reservation_id"]})
        return {"servers": sorted(made, key=lambda each: (len(each["name"]), each["name"])), **reservation}

    def _new_servers(self, request: Mapping[str, Any]) -> Record:
        """A request as the compute API takes it, with the ids of what it names."""
        given = {name: request[name] for name in ("name", "host", "availability_zone") if request.get(name)}
        count = {"min_count": request["count"], "max_count": request["count"], "return_reservation_id": True}
        server = {**given, **count, "flavorRef": self.catalogue.flavor_id(request["flavor"]), "networks": "none"}
        if request.get("image"):
            server["imageRef"] = self.catalogue.find_image(request["image"])["id"]
        hints = dict(request["hints"])
        if request.get("group"):
            hints["group"] = self.catalogue.find_server_group(request["group"])["id"]
        return {"server": server} | ({"os:scheduler_hints": hints} if hints else {})

    def list_servers(self, filters: Mapping[str, str]) -> list[Record]:
        """The servers that match all filters: host, project_id, status, name, reservation_id."""
        return list(self._session.pages(ROOST, "/servers", "servers", filters))

    def get_server(self, server: str) -> Record:
        """One server, by uuid or name."""
        return self._own(f"/servers/{_quoted(server)}")

    def delete_server(self, server: str, dry_run: bool = False) -> Record:
        """Begin to delete a server, by its uuid."""
        if dry_run:
            return self._plan(f"/servers/{_quoted(server)}/plan", {"delete": None})
        self._session.call(COMPUTE, "DELETE", f"/servers/{_quoted(server)}")
        return self.get_server(server)

    def start_server(self, server: str, dry_run: bool = False) -> Record:
        """Begin to start a stopped server."""
        return self._act(server, "os-start", None, dry_run)

    def stop_server(self, server: str, dry_run: bool = False) -> Record:
        """Begin to stop a server."""
        return self._act(server, "os-stop", None, dry_run)

    def resize_server(self, server: str, flavor: str, dry_run: bool = False) -> Record:
        """Begin to give a server another flavor."""
        return self._act(server, "resize", {"flavorRef": self.catalogue.flavor_id(flavor)}, dry_run)

    def confirm_resize(self, server: str, dry_run: bool = False) -> Record:
        """Begin to remove what a resized server left on its former host."""
        return self._act(server, "confirmResize", None, dry_run)

    def revert_resize(self, server: str, dry_run: bool = False) -> Record:
        """Begin to bring a resized server back."""
        return self._act(server, "revertResize", None, dry_run)

    def migrate_server_cold(self, server: str, host: str | None = None, dry_run: bool = False) -> Record:
        """Begin to move a server to another host, stopped meanwhile."""
        return self._act(server, "migrate", {"host": host} if host else None, dry_run)

    def live_migrate_server(
        self, server: str, host: str | None = None, force: bool = False, dry_run: bool = False
    ) -> Record:
        """Begin to move a running server to another host."""
        value = {"host": host, "block_migration": "auto", **({"force": True} if force else {})}
        return self._act(server, "os-migrateLive", value, dry_run, FORCING if force else None)

    def evacuate_server(
        self, server: str, host: str | None = None, force: bool = False, dry_run: bool = False
    ) -> Record:
        """Begin to rebuild a server whose host is down on another one."""
        value = {**({"host": host} if host else {}), **({"force": True} if force else {})}
        return self._act(server, "evacuate", value, dry_run, FORCING if force else None)

    def shelve_server(self, server: str, dry_run: bool = False) -> Record:
        """Begin to take a server off its host."""
        return self._act(server, "shelve", None, dry_run)

    def unshelve_server(
        self, server: str, host: str | None = None, availability_zone: str | None = None, dry_run: bool = False
    ) -> Record:
        """Begin to bring a shelved server onto a host."""
        given = {"host": host, "availability_zone": availability_zone}
        return self._act(server, "unshelve", {name: value for name, value in given.items() if value} or None, dry_run)

    def rebuild_server(self, server: str, image: str | None = None, dry_run: bool = False) -> Record:
        """Begin to build a server anew where it is."""
        found = self.get_server(server)
        wanted = self.catalogue.find_image(image) if image else found.get("image")
        if not wanted:
            raise BadInput(f"server {found['name']} has no image", "name one: --image NAME")
        return self._act(found["id"], "rebuild", {"imageRef": wanted["id"]}, dry_run)

    # --- hosts -------------------------------------------------------------------------------------------

    def list_hosts(self) -> list[Record]:
        """All hosts."""
        return [_host(each) for each in self._session.pages(ROOST, "/hosts", "hosts")]

    def get_host(self, host: str) -> Record:
        """One host."""
        return _host(self._own(f"/hosts/{_quoted(host)}"))

    def set_host(
        self,
        host: str,
        disabled: bool | None = None,
        reason: str | None = None,
        forced_down: bool | None = None,
        dry_run: bool = False,
    ) -> Record:
        """Say whether a host may get servers, and whether it is known to be down."""
        if dry_run:
            values = {"disabled": disabled, "reason": reason, "forced_down": forced_down}
            changes = {name: value for name, value in values.items() if value is not None}
            return self._plan(f"/hosts/{_quoted(host)}/plan", changes)
        services = self._session.call(COMPUTE, "GET", "/os-services", query={"host": host, "binary": "nova-compute"})
        found = _entries(services, "services")
        if not found:
            raise UnknownName(f"Compute host {host[:60]} could not be found.")
        body = {} if disabled is None else {"status": "disabled" if disabled else "enabled"}
        texts = {} if reason is None else {"disabled_reason": reason}
        flags = {} if forced_down is None else {"forced_down": forced_down}
        self._session.call(COMPUTE, "PUT", f"/os-services/{found[0]['id']}", {**body, **texts, **flags})
        return self.get_host(host)

    # --- decisions, flavors, images, the whole cloud -----------------------------------------------------

    def list_decisions(self, filters: Mapping[str, Any]) -> list[Record]:
        """Decisions that match all filters, the latest first."""
        query = {"project" if name == "project_id" else name: _text(value) for name, value in filters.items()}
        return _entries(self._session.call(ROOST, "GET", "/decisions", query=query), "decisions")

    def get_decision(self, decision: str, with_state: bool = False) -> Record:
        """A decision by its id, by the id of its request, or the latest about a server."""
        return self._own(f"/decisions/{_quoted(decision)}", {"with_state": "true"} if with_state else None)

    def list_flavors(self) -> list[Record]:
        """All flavors."""
        return self.catalogue.list_flavors()

    def list_images(self) -> list[Record]:
        """All images."""
        return self.catalogue.list_images()

    def get_snapshot(self) -> Record:
        """The content of a snapshot file, as base64."""
        return {"snapshot": b64encode(self._session.fetch(ROOST, "/snapshot")).decode()}

    # --- how ---------------------------------------------------------------------------------------------

    def _act(self, server: str, action: str, value: Any, dry_run: bool, version: str | None = None) -> Record:
        """Begin an action of the compute API on a server, by its uuid, or plan it; the server as it is then."""
        if dry_run:
            return self._plan(f"/servers/{_quoted(server)}/plan", {action: value}, version)
        self._session.call(COMPUTE, "POST", f"/servers/{_quoted(server)}/action", {action: value}, version=version)
        return self.get_server(server)

    def _plan(self, path: str, body: Record, version: str | None = None) -> Record:
        """What a change would do: {"plan": Plan}. RemoteNoValidHost where a server would find no host."""
        answer = self._own(path, body=body, version=version)
        if answer.get("fits") is False:
            raise no_valid_host(str(answer.get("summary")))
        return {"plan": _entries(answer, "plan")}

    def _own(
        self, path: str, query: Mapping[str, Any] | None = None, body: Any = None, version: str | None = None
    ) -> Record:
        """An answer of Roost's own API, to a question or to a request for a plan."""
        found = self._session.call(ROOST, "GET" if body is None else "POST", path, body, query, version)
        if not isinstance(found, dict):
            raise ApiError(f"the answer to {path} is no object")
        return found


def _entries(answer: Any, key: str) -> list[Record]:
    found = answer.get(key) if isinstance(answer, dict) else None
    if not isinstance(found, list):
        raise ApiError(f"the answer has no {key}")
    return found


def _host(record: Record) -> Record:
    return {name: value for name, value in record.items() if name not in _HOST_EXTRAS}


def _text(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def _quoted(name: str) -> str:
    return quote(name, safe="")
