# SPDX-License-Identifier: Apache-2.0
"""Flavors: list, show, create, change their description, delete. Extra specs are in `flavor_extra_specs.py`."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Query, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from roost.api.call import Call, CurrentCall, accepted, answer
from roost.api.compute.body_types import LARGEST_NUMBER, Amount, Body, LongText, Name, Positive
from roost.api.compute.paging import Direction, Limit, Marker, next_links, page_size
from roost.api.compute.query_types import FALSE_WORDS, TRUE_WORDS
from roost.api.microversions import v
from roost.errors import BadInput, UnknownName
from roost.records.flavor_catalogue import (
    FlavorFilters,
    FlavorRecord,
    NewFlavor,
    create_flavor,
    delete_flavor,
    get_flavor,
    list_flavors,
    update_flavor_description,
)
from roost.records.paging import Page, SortBy

DESCRIPTION, EXTRA_SPECS, SWAP_AS_NUMBER = v(55), v(61), v(75)
"""Since when flavors are shown with their description, with extra specs, and with a swap of 0 as a number."""
SEE_EXTRA_SPECS = "os_compute_api:os-flavor-extra-specs:index"


def _as_text(value: Any) -> Any:
    return str(value) if type(value) is int and 0 <= value <= LARGEST_NUMBER else value


FlavorId = Annotated[Name, BeforeValidator(_as_text), StringConstraints(pattern=r"^[a-zA-Z0-9. _-]+$")]


# --- bodies ------------------------------------------------------------------------------------------


class FlavorFields(Body):
    """What a client says of a new flavor: memory and swap in MiB, disks in GiB."""

    name: Name
    ram: Positive
    vcpus: Positive
    disk: Amount
    id: FlavorId | None = None
    swap: Amount = 0
    ephemeral: Amount = Field(0, alias="OS-FLV-EXT-DATA:ephemeral")
    is_public: bool = Field(True, alias="os-flavor-access:is_public")
    rxtx_factor: float = Field(1.0, gt=0, le=3.0e38)
    description: LongText | None = None


class FlavorToCreate(Body):
    """The body that creates a flavor."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"flavor": {"name": "m1.small", "ram": 2048, "vcpus": 1, "disk": 20}}]}
    )
    flavor: FlavorFields


class DescriptionField(Body):
    """What can be changed of a flavor."""

    description: LongText | None


class FlavorToUpdate(Body):
    """The body that changes a flavor."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"flavor": {"description": "for web servers"}}]})
    flavor: DescriptionField


# --- read --------------------------------------------------------------------------------------------


class FlavorQuery(BaseModel):
    """Which flavors are listed, in which order."""

    is_public: str | None = Field(None, description="true, false, or none for all; only administrators may choose")
    minRam: Amount = 0  # noqa: N815 - nova's name
    minDisk: Amount = 0  # noqa: N815
    sort_key: str = "flavorid"
    sort_dir: Direction = "asc"
    limit: Limit = None
    marker: Marker = None


def list_names(query: Annotated[FlavorQuery, Query()], call: CurrentCall) -> Response:
    """List flavors by name, id and links."""
    found, links = _find_page(call, query)
    return answer({"flavors": [_name_json(call, each) for each in found]} | links)


def list_details(query: Annotated[FlavorQuery, Query()], call: CurrentCall) -> Response:
    """List flavors with their sizes."""
    found, links = _find_page(call, query)
    shows_specs = call.allows(SEE_EXTRA_SPECS)
    return answer({"flavors": [flavor_json(call, each, shows_specs=shows_specs) for each in found]} | links)


def _find_page(call: Call, query: FlavorQuery) -> tuple[list[FlavorRecord], dict[str, Any]]:
    """The flavors of a page, and the links to the next one."""
    size = page_size(call, query.limit)
    wanted = FlavorFilters(_publicity(call, query.is_public), query.minRam or None, query.minDisk or None)
    page = Page(size, query.marker, (SortBy(query.sort_key, query.sort_dir == "desc"),))
    found = list_flavors(call.parts.engine, wanted, page)
    return found, next_links(call, "flavors", [each.flavorid for each in found], size)


def _publicity(call: Call, is_public: str | None) -> bool | None:
    """Which flavors are listed: public ones, or for administrators others, or with the text None all."""
    if is_public is None or not call.is_admin:
        return True
    word = is_public.strip().lower()
    if word not in ("none", *TRUE_WORDS, *FALSE_WORDS):
        raise BadInput(f"Invalid is_public filter [{is_public[:60]}]")
    return None if word == "none" else word in TRUE_WORDS


def show(flavor_id: str, call: CurrentCall) -> Response:
    """Show one flavor."""
    found = visible_flavor(call, flavor_id)
    return answer({"flavor": flavor_json(call, found, shows_specs=call.allows(SEE_EXTRA_SPECS))})


def visible_flavor(call: Call, flavor_id: str) -> FlavorRecord:
    """The flavor with this id; UnknownName if there is none that the caller may see."""
    found = get_flavor(call.parts.engine, flavor_id)
    if not found.is_public and not call.is_admin:
        raise UnknownName(f"Flavor {flavor_id} could not be found.")
    return found


# --- write -------------------------------------------------------------------------------------------


def create(body: FlavorToCreate, call: CurrentCall) -> Response:
    """Create a flavor; without an id it gets a new uuid."""
    given = body.flavor
    if "description" in given.model_fields_set and call.version < DESCRIPTION:
        raise BadInput("Invalid input for field/attribute flavor. Additional properties: description")
    wanted = NewFlavor(
        name=given.name,
        vcpus=given.vcpus,
        memory_mb=given.ram,
        root_gb=given.disk,
        ephemeral_gb=given.ephemeral,
        swap=given.swap,
        flavorid=given.id,
        is_public=given.is_public,
        rxtx_factor=given.rxtx_factor,
        description=given.description,
    )
    made = create_flavor(call.parts.engine, wanted, call.parts.servers.times)
    return answer({"flavor": flavor_json(call, made, shows_specs=call.allows(SEE_EXTRA_SPECS))})


def change(flavor_id: str, body: FlavorToUpdate, call: CurrentCall) -> Response:
    """Replace the description of a flavor; null removes it."""
    parts = call.parts
    changed = update_flavor_description(parts.engine, flavor_id, body.flavor.description, parts.servers.times)
    return answer({"flavor": flavor_json(call, changed, shows_specs=call.allows(SEE_EXTRA_SPECS))})


def remove(flavor_id: str, call: CurrentCall) -> Response:
    """Delete a flavor; servers made of it keep their sizes."""
    delete_flavor(call.parts.engine, flavor_id)
    return accepted()


# --- answers -----------------------------------------------------------------------------------------


def _name_json(call: Call, flavor: FlavorRecord) -> dict[str, Any]:
    shown = {"id": flavor.flavorid, "name": flavor.name, "links": flavor_links(call, flavor.flavorid)}
    return shown | ({"description": flavor.description} if call.version >= DESCRIPTION else {})


def flavor_json(call: Call, flavor: FlavorRecord, *, shows_specs: bool) -> dict[str, Any]:
    """A flavor as the version of the call shows it. `shows_specs`: with extra specs, where the version has them."""
    shown = _name_json(call, flavor) | {
        "ram": flavor.memory_mb,
        "vcpus": flavor.vcpus,
        "disk": flavor.root_gb,
        "swap": flavor.swap or (0 if call.version >= SWAP_AS_NUMBER else ""),
        "OS-FLV-EXT-DATA:ephemeral": flavor.ephemeral_gb,
        "OS-FLV-DISABLED:disabled": flavor.disabled,
        "os-flavor-access:is_public": flavor.is_public,
        "rxtx_factor": flavor.rxtx_factor,
    }
    return shown | ({"extra_specs": flavor.extra_specs} if shows_specs and call.version >= EXTRA_SPECS else {})


def flavor_links(call: Call, flavor_id: str) -> list[dict[str, str]]:
    """The links of a flavor: to itself, and the permanent one."""
    own = [("self", "/v2.1"), ("bookmark", "")]
    return [{"rel": rel, "href": call.link(f"{prefix}/flavors/{quote(flavor_id)}")} for rel, prefix in own]
