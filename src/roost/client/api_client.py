# SPDX-License-Identifier: Apache-2.0
"""A `CommandClient` that asks the API of a cloud.

Servers, hosts and decisions are read from Roost's own resources, which say as much as conductors do; what changes
servers and hosts is asked of the compute API, as `openstack` asks it.

Flavors, images, aggregates and server groups are named by their id, or by their name where only one has it. Records
are JSON objects.

| record | keys |
| --- | --- |
| flavor | id, name, vcpus, memory_mb, root_gb, ephemeral_gb, swap, extra_specs; shown: description, is_public |
| image | id, name, status, min_ram, min_disk; shown: visibility, owner, properties |
| aggregate | id, name, availability_zone, hosts, metadata |
| server group | id, name, policy, rules, members, project_id, user_id |
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from roost.client.api_session import COMPUTE, IMAGE, PAGE_SIZE, ROOST, ApiSession, no_valid_host
from roost.client.cloud_access import CloudAccess
from roost.client.interface import Record
from roost.errors import AccessError, ApiError, BadInput, PartlyChanged, RoostError, UnknownName, nearest

_FLAVOR_KEYS = {
    "id": "id",
    "name": "name",
    "vcpus": "vcpus",
    "memory_mb": "ram",
    "root_gb": "disk",
    "ephemeral_gb": "OS-FLV-EXT-DATA:ephemeral",
    "swap": "swap",
}
"""Key of a record -> that of the compute API."""
_IMAGE_KEYS = ("id", "name", "status", "min_ram", "min_disk")
_IMAGE_DETAILS = ("visibility", "owner")
_NO_PROPERTIES = frozenset(
    {*_IMAGE_KEYS, *_IMAGE_DETAILS, "size", "virtual_size", "disk_format", "container_format", "checksum", "tags"}
    | {
        "os_hash_algo",
        "os_hash_value",
        "os_hidden",
        "protected",
        "created_at",
        "updated_at",
        "self",
        "file",
        "schema",
    }
)
"""Keys of an image that Image v2 defines; any other is a property."""
_AGGREGATE_KEYS = ("id", "name", "availability_zone", "hosts", "metadata")
_GROUP_KEYS = ("id", "name", "policy", "rules", "members", "project_id", "user_id")
FLAVOR_FIELDS = (*_FLAVOR_KEYS, "extra_specs", "description", "is_public")
IMAGE_FIELDS = (*_IMAGE_KEYS, *_IMAGE_DETAILS, "properties")
AGGREGATE_FIELDS, GROUP_FIELDS = _AGGREGATE_KEYS, _GROUP_KEYS
"""Keys of a record of one flavor, image, aggregate and server group, in the order in which they are shown."""


class ApiCatalogue:
    """Calls that read and change flavors, images, aggregates and server groups."""

    def __init__(self, session: ApiSession) -> None:
        self._session = session

    # --- flavors -----------------------------------------------------------------------------------------

    def list_flavors(self) -> list[Record]:
        """All flavors that the user may see."""
        return [_flavor(each) for each in self._flavors()]

    def find_flavor(self, name: str) -> Record:
        """A flavor with what a list leaves out."""
        return _whole_flavor(_one(self._flavors(), name, "flavor"))

    def flavor_id(self, name: str) -> str:
        """The id of a flavor."""
        return str(_one(self._flavors(), name, "flavor")["id"])

    def create_flavor(self, flavor: Mapping[str, Any], extra_specs: Mapping[str, str]) -> Record:
        """Make a flavor. `flavor`: name, vcpus, memory_mb and root_gb, and what else a record may have."""
        body = {_FLAVOR_KEYS.get(key, key): value for key, value in flavor.items()}
        if "is_public" in body:
            body["os-flavor-access:is_public"] = body.pop("is_public")
        made = self._compute("POST", "/flavors", {"flavor": body})["flavor"]
        if extra_specs:
            with _taken_back(f"flavor {made['name']} was made", lambda: self.delete_flavor(made["id"])):
                made["extra_specs"] = self._set_extra_specs(made["id"], extra_specs)
        return _whole_flavor(made)

    def set_flavor(self, name: str, description: str | None, extra_specs: Mapping[str, str]) -> Record:
        """Give a flavor another description, unless it is None, and add extra specs: the flavor then."""
        found = self.find_flavor(name)
        if description is not None:
            self._describe_flavor(found["id"], description)
        if extra_specs:
            former = found["description"]
            with _taken_back(f"flavor {name} is described", lambda: self._describe_flavor(found["id"], former)):
                self._set_extra_specs(found["id"], extra_specs)
        return self._get_flavor(found["id"])

    def unset_flavor(self, name: str, keys: Collection[str]) -> Record:
        """Remove extra specs from a flavor, all of them or none: the flavor then."""
        found = self.find_flavor(name)
        _check_keys(found["extra_specs"], keys, f"flavor {found['name']}")
        for key in keys:
            self._compute("DELETE", f"/flavors/{found['id']}/os-extra_specs/{key}")
        return self._get_flavor(found["id"])

    def delete_flavor(self, uuid: str) -> None:
        """Delete a flavor, by its id; servers that have it keep their size."""
        self._compute("DELETE", f"/flavors/{uuid}")

    def _flavors(self) -> Iterable[Record]:
        return self._session.pages(COMPUTE, "/flavors/detail", "flavors", {"is_public": "None"})

    def _get_flavor(self, uuid: str) -> Record:
        return _whole_flavor(self._compute("GET", f"/flavors/{uuid}")["flavor"])

    def _describe_flavor(self, uuid: str, description: str | None) -> None:
        self._compute("PUT", f"/flavors/{uuid}", {"flavor": {"description": description}})

    def _set_extra_specs(self, uuid: str, extra_specs: Mapping[str, str]) -> Record:
        body = {"extra_specs": dict(extra_specs)}
        return dict(self._compute("POST", f"/flavors/{uuid}/os-extra_specs", body)["extra_specs"])

    # --- images ------------------------------------------------------------------------------------------

    def list_images(self) -> list[Record]:
        """All images that the user may see."""
        return [{key: each[key] for key in _IMAGE_KEYS} for each in self._images()]

    def find_image(self, name: str) -> Record:
        """An image with what a list leaves out."""
        return _whole_image(_one(self._images(), name, "image"))

    def create_image(self, fields: Mapping[str, Any], properties: Mapping[str, str]) -> Record:
        """Make an image without data. `fields`: name, and id, min_ram, min_disk, visibility where they are given."""
        formats = {"disk_format": "raw", "container_format": "bare"}
        return _whole_image(self._session.call(IMAGE, "POST", "/v2/images", {**properties, **formats, **fields}))

    def set_image(self, name: str, fields: Mapping[str, Any], properties: Mapping[str, str]) -> Record:
        """Change fields and properties of an image: the image then."""
        changes = [{"op": "add", "path": _pointer(key), "value": value} for key, value in properties.items()]
        changes += [{"op": "replace", "path": _pointer(key), "value": value} for key, value in fields.items()]
        return self._patch_image(self.find_image(name), changes)

    def unset_image(self, name: str, keys: Collection[str]) -> Record:
        """Remove properties from an image, all of them or none: the image then."""
        found = self.find_image(name)
        _check_keys(found["properties"], keys, f"image {found['name']}")
        return self._patch_image(found, [{"op": "remove", "path": _pointer(key)} for key in keys])

    def delete_image(self, uuid: str) -> None:
        """Delete an image, by its id; servers that were built of it stay."""
        self._session.call(IMAGE, "DELETE", f"/v2/images/{uuid}")

    def _images(self) -> Iterable[Record]:
        return self._session.pages(IMAGE, "/v2/images", "images")

    def _patch_image(self, image: Record, changes: Sequence[Record]) -> Record:
        return _whole_image(self._session.call(IMAGE, "PATCH", f"/v2/images/{image['id']}", list(changes)))

    # --- aggregates --------------------------------------------------------------------------------------

    def list_aggregates(self) -> list[Record]:
        """All aggregates."""
        return [_aggregate(each) for each in self._compute("GET", "/os-aggregates")["aggregates"]]

    def find_aggregate(self, name: str) -> Record:
        """One aggregate."""
        return _one(self.list_aggregates(), name, "aggregate")

    def create_aggregate(self, name: str, zone: str | None, metadata: Mapping[str, str]) -> Record:
        """Make an aggregate without hosts."""
        body = {"name": name, **({"availability_zone": zone} if zone else {})}
        made = self._compute("POST", "/os-aggregates", {"aggregate": body})["aggregate"]
        if metadata:
            with _taken_back(f"aggregate {name} was made", lambda: self.delete_aggregate(made["id"])):
                return self._set_metadata(made, metadata)
        return _aggregate({"hosts": [], "metadata": {"availability_zone": zone} if zone else {}, **made})

    def set_aggregate(self, name: str, changes: Mapping[str, str], metadata: Mapping[str, str | None]) -> Record:
        """Change an aggregate. `changes`: of name and availability_zone; a value of None removes metadata."""
        found = self.find_aggregate(name)
        now = self._set_metadata(found, metadata) if metadata else found
        if not changes:
            return now
        former = {key: found["metadata"].get(key) for key in metadata}
        with _taken_back(f"aggregate {name} has the metadata", lambda: former and self._set_metadata(found, former)):
            answer = self._compute("PUT", f"/os-aggregates/{found['id']}", {"aggregate": dict(changes)})
            return _aggregate(answer["aggregate"])

    def unset_aggregate(self, name: str, keys: Collection[str]) -> Record:
        """Remove metadata from an aggregate, all of it or none: the aggregate then."""
        found = self.find_aggregate(name)
        _check_keys(found["metadata"], keys, f"aggregate {found['name']}")
        return self._set_metadata(found, dict.fromkeys(keys))

    def add_host(self, name: str, host: str) -> Record:
        """Add a host to an aggregate."""
        return self._act_on_aggregate(self.find_aggregate(name), "add_host", {"host": host})

    def remove_host(self, name: str, host: str) -> Record:
        """Remove a host from an aggregate."""
        return self._act_on_aggregate(self.find_aggregate(name), "remove_host", {"host": host})

    def delete_aggregate(self, number: int) -> None:
        """Delete an aggregate that has no hosts, by its id."""
        self._compute("DELETE", f"/os-aggregates/{number}")

    def _set_metadata(self, aggregate: Record, metadata: Mapping[str, str | None]) -> Record:
        return self._act_on_aggregate(aggregate, "set_metadata", {"metadata": dict(metadata)})

    def _act_on_aggregate(self, aggregate: Record, action: str, value: Record) -> Record:
        answer = self._compute("POST", f"/os-aggregates/{aggregate['id']}/action", {action: value})
        return _aggregate(answer["aggregate"])

    # --- server groups -----------------------------------------------------------------------------------

    def list_server_groups(self, is_of_all_projects: bool = False) -> list[Record]:
        """The server groups of the project, or of all projects."""
        found: list[Record] = []
        while True:
            query = {
                "limit": PAGE_SIZE,
                "offset": len(found),
                **({"all_projects": "1"} if is_of_all_projects else {}),
            }
            page = self._session.call(COMPUTE, "GET", "/os-server-groups", query=query)["server_groups"]
            found += [{key: each.get(key) for key in _GROUP_KEYS} for each in page]
            if len(page) < PAGE_SIZE:
                return found

    def find_server_group(self, name: str) -> Record:
        """One server group of the project."""
        return _one(self.list_server_groups(), name, "server group")

    def create_server_group(self, name: str, policy: str, rules: Mapping[str, Any]) -> Record:
        """Make a server group of the project."""
        body = {"name": name, "policy": policy, **({"rules": dict(rules)} if rules else {})}
        made = self._compute("POST", "/os-server-groups", {"server_group": body})["server_group"]
        return {key: made.get(key) for key in _GROUP_KEYS}

    def delete_server_group(self, uuid: str) -> None:
        """Delete a server group, by its id; its members stay where they are."""
        self._compute("DELETE", f"/os-server-groups/{uuid}")

    # --- how ---------------------------------------------------------------------------------------------

    def _compute(self, method: str, path: str, body: Any = None) -> Any:
        return self._session.call(COMPUTE, method, path, body)


@contextmanager
def _taken_back(done: str, undo: Callable[[], Any]) -> Iterator[None]:
    """Context of the second step of a change: where it is refused, the first is taken back; nothing is changed then.

    PartlyChanged where that is not possible; `done` says what there is then.
    """
    try:
        yield
    except (BadInput, AccessError) as error:
        try:
            undo()
        except RoostError as problem:
            raise PartlyChanged(
                f"{done}, but not the rest: {error.message}", f"it stays so: {problem.message}"
            ) from None
        raise


def _one(records: Iterable[Record], name: str, noun: str) -> Record:
    """The record with this id, or else the only one with this name; UnknownName otherwise."""
    known = list(records)
    found = [each for each in known if str(each["id"]) == name] or [each for each in known if each["name"] == name]
    if len(found) > 1:
        raise UnknownName(f"{len(found)} {noun}s are named {name[:60]}", "give the id")
    if not found:
        raise UnknownName(f"there is no {noun} {name[:60]}", nearest(name, [str(each["name"]) for each in known]))
    return found[0]


def _check_keys(known: Mapping[str, Any], keys: Collection[str], what: str) -> None:
    for key in keys:
        if key not in known:
            raise UnknownName(f"{what} has no property {key[:60]}", nearest(key, known))


def _flavor(found: Record) -> Record:
    sizes = {key: found[theirs] for key, theirs in _FLAVOR_KEYS.items()}
    return sizes | {"extra_specs": found.get("extra_specs") or {}}


def _whole_flavor(found: Record) -> Record:
    return _flavor(found) | {
        "description": found.get("description"),
        "is_public": found.get("os-flavor-access:is_public"),
    }


def _whole_image(found: Record) -> Record:
    own = {key: found.get(key) for key in (*_IMAGE_KEYS, *_IMAGE_DETAILS)}
    return own | {"properties": {key: value for key, value in found.items() if key not in _NO_PROPERTIES}}


def _aggregate(found: Record) -> Record:
    return {key: found.get(key) for key in _AGGREGATE_KEYS}


def _pointer(key: str) -> str:
    """A key as JSON patches name it."""
    return "/" + key.replace("~", "~0").replace("/", "~1")


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
