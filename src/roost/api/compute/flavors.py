# SPDX-License-Identifier: Apache-2.0
"""Flavors and their extra specs: list, show, create, change, delete.

Extra specs of nova's namespaces may have the values of nova's reference; those of other namespaces may have any. A
value is checked when it is set; whether a host can provide what it asks for is decided with each request.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple
from urllib.parse import quote

from fastapi import Query, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, RootModel, StringConstraints

from roost.api.call import Call, CurrentCall, accepted, answer
from roost.api.compute.body_types import (
    LARGEST_NUMBER,
    Amount,
    Body,
    LongText,
    MetadataKey,
    MetadataValue,
    Name,
    Positive,
)
from roost.api.compute.server_list import FALSE_WORDS, TRUE_WORDS, Direction, Marker, PageLimit, next_links, page_size
from roost.api.microversions import v
from roost.errors import BadInput, UnknownName
from roost.model.resources import is_resource_class
from roost.records.flavor_catalogue import (
    FlavorFilters,
    FlavorRecord,
    NewFlavor,
    create_flavor,
    delete_extra_spec,
    delete_flavor,
    get_flavor,
    list_flavors,
    merge_extra_specs,
    update_flavor_description,
)
from roost.store.pages import Page, SortBy


class Values(NamedTuple):
    """The values that an extra spec may have."""

    has: Callable[[str], bool]
    described: str


def _number(least: int = 0) -> Values:
    return Values(
        lambda text: bool(re.fullmatch(r"\d{1,18}", text, re.ASCII)) and int(text) >= least,
        f"a whole number of at least {least}",
    )


def _one_of(words: str) -> Values:
    return Values(lambda text: text in words.split(), f"one of {', '.join(words.split())}")


def _matching(pattern: str, described: str) -> Values:
    return Values(lambda text: bool(re.fullmatch(pattern, text, re.ASCII)), described)


_BOOLEANS = frozenset("1 t true on y yes 0 f false off n no".split())
_BOOLEAN = Values(lambda text: text.strip().lower() in _BOOLEANS, "true or false")
_TEXT = Values(lambda text: True, "any text")
_CPUS = _matching(r"\^?\d{1,6}(-\d{1,6})?(,\^?\d{1,6}(-\d{1,6})?)*", "a list of CPUs such as 0-3,^2")

_NAMES: dict[str, Values] = {
    "group_policy": _one_of("none isolate"),
    "accel:device_profile": _TEXT,
    "hw_rng:allowed": _BOOLEAN,
    "hw_rng:rate_bytes": _number(),
    "hw_rng:rate_period": _number(),
    "hw_video:ram_max_mb": _number(),
    "os:secure_boot": _one_of("required disabled optional"),
    "pci_passthrough:alias": _matching(r"[-\w]+:\d{1,6}(,[-\w]+:\d{1,6})*", "ALIAS:COUNT, separated by commas"),
    "trust:trusted_host": _one_of("trusted untrusted unknown"),
    "hw:cpu_policy": _one_of("dedicated shared mixed"),
    "hw:cpu_thread_policy": _one_of("prefer isolate require"),
    "hw:emulator_threads_policy": _one_of("isolate share"),
    "hw:cpu_dedicated_mask": _CPUS,
    "hw:cpu_realtime_mask": _CPUS,
    "hw:mem_page_size": _matching(
        r"large|small|any|\d{1,15}([KMGTkmgt]i?)?[bB]?(it)?", "small, large, any or a size"
    ),
    "hw:maxphysaddr_mode": _one_of("passthrough emulate"),
    "hw:pci_numa_affinity_policy": _one_of("required preferred legacy socket"),
    "hw:pmem": _TEXT,
    "hw:cdrom_bus": _TEXT,
    "hw:input_bus": _TEXT,
    "hw:sound_model": _TEXT,
    "hw:usb_model": _TEXT,
    "hw:ephemeral_encryption_format": _TEXT,
    "hw:tpm_model": _one_of("tpm-tis tpm-crb"),
    "hw:tpm_secret_security": _one_of("user host deployment"),
    "hw:tpm_version": _one_of("1.2 2.0"),
    "hw:viommu_model": _one_of("intel smmuv3 virtio auto"),
    "hw:watchdog_action": _one_of("none pause poweroff reset disabled"),
    "hw:numa_nodes": _number(1),
    "hw:serial_port_count": _number(),
    "hw:redirected_usb_ports": _number(),
    "hw:maxphysaddr_bits": _number(),
}
_NAMES |= dict.fromkeys(
    (f"hw:cpu_{most}{part}" for most in ("", "max_") for part in ("sockets", "cores", "threads")), _number()
)
_NAMES |= dict.fromkeys(
    (
        f"hw:{name}"
        for name in "boot_menu cpu_realtime ephemeral_encryption hide_hypervisor_id locked_memory mem_encryption "
        "vif_multiqueue_enabled virtio_packed_ring".split()
    ),
    _BOOLEAN,
)

_FORMS: tuple[tuple[str, Values], ...] = (
    (r"hw:numa_cpus\.\d{1,4}", _CPUS),
    (r"hw:numa_mem\.\d{1,4}", _number(1)),
    (r"quota:\w+_shares_level", _one_of("custom high normal low")),
    (r"quota:\w+", _number()),
    (r"resources[\w-]{0,64}:.+", _number()),
    (r"trait[\w-]{0,64}:[A-Z][A-Z0-9_]*", _one_of("required forbidden")),
)
_RESOURCE = re.compile(r"resources[\w-]{0,64}:(.+)", re.ASCII)
_CHECKED_NAMESPACE = re.compile(
    r"(accel|hw|hw_rng|hw_video|os|pci_passthrough|quota|trust|resources[\w-]{0,64}|trait[\w-]{0,64}):.*", re.ASCII
)


def check_extra_spec(name: str, value: str) -> None:
    """Raise BadInput for a name that its namespace does not have, or for a value that the name does not allow."""
    values = _values_of(name)
    if values is None:
        raise BadInput(f"Validation failed; extra spec '{name}' does not appear to be a valid extra spec.")
    if not values.has(value):
        raise BadInput(
            f"Validation failed; '{value[:60]}' is no value of extra spec '{name}': it is {values.described}."
        )


def _values_of(name: str) -> Values | None:
    """What values a name may have; None for a name that does not exist in a namespace that is checked."""
    if name in _NAMES:
        return _NAMES[name]
    resource = _RESOURCE.fullmatch(name)
    if resource and not is_resource_class(resource[1]):
        return None
    for pattern, values in _FORMS:
        if re.fullmatch(pattern, name, re.ASCII):
            return values
    return None if _CHECKED_NAMESPACE.fullmatch(name) else _TEXT


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
    limit: PageLimit = None
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


CHECKED = v(86)
"""Since when extra specs of namespaces that nova knows are checked."""


class ExtraSpecs(Body):
    """The body that sets extra specs; others of the flavor stay."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"extra_specs": {"hw:cpu_policy": "dedicated"}}]})
    extra_specs: dict[MetadataKey, MetadataValue]


class OneExtraSpec(RootModel[Annotated[dict[MetadataKey, MetadataValue], Field(min_length=1, max_length=1)]]):
    """The body that sets one extra spec: its key, as in the address, and its value."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"hw:cpu_policy": "dedicated"}]})


def list_all(flavor_id: str, call: CurrentCall) -> Response:
    """List the extra specs of a flavor."""
    return answer({"extra_specs": visible_flavor(call, flavor_id).extra_specs})


def merge(flavor_id: str, body: ExtraSpecs, call: CurrentCall) -> Response:
    """Set extra specs of a flavor and leave its others."""
    _save(call, flavor_id, body.extra_specs)
    return answer({"extra_specs": body.extra_specs})


def show_extra_spec(flavor_id: str, key: str, call: CurrentCall) -> Response:
    """Show one extra spec of a flavor."""
    specs = visible_flavor(call, flavor_id).extra_specs
    if key not in specs:
        raise UnknownName(f"Flavor {flavor_id} has no extra specs with key {key}.")
    return answer({key: specs[key]})


def replace(flavor_id: str, key: str, body: OneExtraSpec, call: CurrentCall) -> Response:
    """Set one extra spec of a flavor."""
    if key not in body.root:
        raise BadInput("Request body and URI mismatch")
    _save(call, flavor_id, body.root)
    return answer(body.root)


def remove_extra_spec(flavor_id: str, key: str, call: CurrentCall) -> Response:
    """Delete one extra spec of a flavor."""
    delete_extra_spec(call.parts.engine, flavor_id, key)
    return accepted(200)


def _save(call: Call, flavor_id: str, specs: dict[str, str]) -> None:
    if call.version >= CHECKED:
        for key, value in specs.items():
            check_extra_spec(key, value)
    merge_extra_specs(call.parts.engine, flavor_id, specs)
