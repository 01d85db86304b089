# SPDX-License-Identifier: Apache-2.0
"""Bodies of requests for new servers and their metadata, as clients send them: bounds and lengths are nova's."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field, model_validator

from roost.api.call import Call, CurrentCall, accepted, answer
from roost.api.compute.body_types import (
    ABSENT,
    Body,
    GuestName,
    IPv4,
    IPv6,
    MetadataKey,
    MetadataValue,
    Name,
    Positive,
)
from roost.api.microversions import v
from roost.errors import BadInput, UnknownName

INDEX, SHOW, CREATE, UPDATE, UPDATE_ALL, DELETE = (
    f"os_compute_api:server-metadata:{name}" for name in ("index", "show", "create", "update", "update_all", "delete")
)

Metadata = Annotated[
    dict[MetadataKey, MetadataValue],
    Field(max_length=128, json_schema_extra={"additionalProperties": False}),  # other keys than the pattern allows
]
_MISSING = "Metadata item was not found"


class MetadataBody(Body):
    """Entries to be set."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"metadata": {"role": "web"}}]})

    metadata: Metadata


class MetadataItemBody(Body):
    """One entry to be set."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"meta": {"role": "web"}}]})

    meta: Annotated[Metadata, Field(min_length=1, max_length=1)]


def list_metadata(server_id: str, call: CurrentCall) -> Response:
    """All entries."""
    return answer({"metadata": dict(call.find_server(server_id, INDEX).metadata)})


def add_metadata(server_id: str, body: MetadataBody, call: CurrentCall) -> Response:
    """Set these entries, and leave the others."""
    found = call.client.set_server_metadata(call.find_server(server_id, CREATE).uuid, body.metadata)
    return answer({"metadata": found["metadata"]})


def replace_metadata(server_id: str, body: MetadataBody, call: CurrentCall) -> Response:
    """Set these entries, and remove the others."""
    uuid = call.find_server(server_id, UPDATE_ALL).uuid
    return answer({"metadata": call.client.set_server_metadata(uuid, body.metadata, replace=True)["metadata"]})


def show_metadata_item(server_id: str, key: str, call: CurrentCall) -> Response:
    """One entry."""
    found = call.find_server(server_id, SHOW).metadata
    if key not in found:
        raise UnknownName(_MISSING)
    return answer({"meta": {key: found[key]}})


def set_metadata_item(server_id: str, key: str, body: MetadataItemBody, call: CurrentCall) -> Response:
    """Set one entry."""
    if key not in body.meta:
        raise BadInput("Request body and URI mismatch")
    call.client.set_server_metadata(call.find_server(server_id, UPDATE).uuid, body.meta)
    return answer({"meta": body.meta})


def delete_metadata_item(server_id: str, key: str, call: CurrentCall) -> Response:
    """Remove one entry."""
    found = call.find_server(server_id, DELETE)
    if key not in found.metadata:
        raise UnknownName(_MISSING)
    call.client.delete_server_metadata(found.uuid, key)
    return accepted(204)


Text = Annotated[str, Field(max_length=255)]
Count = Annotated[int, Field(ge=1, le=1000)]
Uuids = UUID | list[UUID]
DiskConfig = Literal["AUTO", "MANUAL"]
_OF_VOLUMES = ("device_name", "device_type", "disk_bus", "guest_format", "volume_size", "volume_type", "tag")
"""Keys of a block device that say what no local boot disk is told."""
_UNSUPPORTED = {
    "preserve_ephemeral": "No ephemeral disk outlives a rebuild here: leave preserve_ephemeral out.",
    "key_name": "There are no key pairs here: leave key_name out.",
    "user_data": "There is no metadata service here that could serve user_data: leave it out.",
    "personality": "No files can be written into servers: leave personality out.",
    "config_drive": "There are no config drives here: leave config_drive out.",
    "tags": "Servers have no tags here: leave tags out.",
    "trusted_image_certificates": "Images are not verified here: leave trusted_image_certificates out.",
}
"""Key of a server -> why no value of it is accepted, though the API has it."""


class SchedulerHints(BaseModel):
    """What a client asks of the scheduler; keys that are not nova's are for filters of the operator's own."""

    model_config = ConfigDict(extra="allow")

    group: UUID | Annotated[list[UUID], Field(min_length=1, max_length=1)] | None = None
    different_host: Uuids | None = None
    same_host: Uuids | None = None
    query: str | dict[str, Any] | None = None
    build_near_host_ip: IPv4Address | IPv6Address | None = None
    cidr: Annotated[str, Field(pattern=r"^/[0-9a-f.:]+$")] | None = None
    target_cell: Text | None = None
    different_cell: Text | list[Text] | None = None


class BlockDevice(Body):
    """A disk of a server. There are no volumes: only the image as its local boot disk, which ends with it."""

    uuid: Text | None = None
    boot_index: int | None = None
    source_type: Literal["image", "blank", "volume", "snapshot"] = "volume"
    destination_type: Literal["local", "volume"] | None = None
    delete_on_termination: bool = True
    no_device: bool = False
    device_name: Text | None = None
    device_type: Text | None = None
    disk_bus: Text | None = None
    guest_format: Text | None = None
    volume_size: Positive | None = None
    volume_type: Text | None = None
    tag: Text | None = None


class SecurityGroup(Body):
    """The only one that there is: without networks, it stands for nothing."""

    name: Literal["default"] = "default"


class WrittenDetails(Body):
    """What clients write on a server, when it is made and afterwards, and no rule reads."""

    description: Text | None = None
    accessIPv4: IPv4 = ABSENT  # noqa: N815 - a name of the API
    accessIPv6: IPv6 = ABSENT  # noqa: N815 - a name of the API
    disk_config: DiskConfig = Field(ABSENT, alias="OS-DCF:diskConfig")
    hostname: GuestName = ABSENT

    def details(self) -> dict[str, Any]:
        """What is given of it, by the words of conductors."""
        return {word: getattr(self, name) for name, word in _DETAILS.items() if name in self.model_fields_set}


_DETAILS = {
    "name": "name",
    "description": "description",
    "accessIPv4": "access_ip_v4",
    "accessIPv6": "access_ip_v6",
    "disk_config": "disk_config",
    "hostname": "hostname",
    "metadata": "metadata",
}
"""Key of a body -> the word of conductors."""


class NewServer(WrittenDetails):
    """A server that a client wants, or several."""

    name: Name
    flavorRef: Text | int  # noqa: N815 - a name of the API
    imageRef: Text | None = None  # noqa: N815 - a name of the API
    min_count: Count | None = None
    max_count: Count | None = None
    networks: Literal["none", "auto"] | list[dict[str, Any]] | None = None
    availability_zone: Text | None = None
    host: Name | None = None
    hypervisor_hostname: Name | None = None
    block_device_mapping_v2: Annotated[list[BlockDevice], Field(max_length=1)] = []
    block_device_mapping: Annotated[list[dict[str, Any]], Field(max_length=0)] = []
    metadata: Metadata = {}
    adminPass: Text | None = None  # noqa: N815 - a name of the API
    return_reservation_id: bool = False
    security_groups: Annotated[list[SecurityGroup], Field(max_length=1)] = []
    config_drive: bool | None = None
    key_name: Text | None = None
    user_data: Annotated[str, Field(max_length=65535)] | None = None
    personality: list[dict[str, Any]] = []
    tags: list[Text] = []
    trusted_image_certificates: list[Text] | None = None


class CreateBody(Body):
    """The body of a request for new servers. Hints are beside the server, under one of two keys."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"server": {"name": "web", "flavorRef": "small", "networks": "none", "max_count": 1}}]
        },
    )

    server: NewServer
    os_hints: SchedulerHints | None = Field(None, alias="os:scheduler_hints")
    sch_hints: SchedulerHints | None = Field(None, alias="OS-SCH-HNT:scheduler_hints")

    @model_validator(mode="after")
    def has_hints_once(self) -> Self:
        """Refuse hints under two keys, of which one would be lost."""
        if self.os_hints is not None and self.sch_hints is not None:
            raise ValueError("give either os:scheduler_hints or OS-SCH-HNT:scheduler_hints")
        return self

    @property
    def hints(self) -> dict[str, Any]:
        """The hints that are set, as JSON data."""
        found = self.sch_hints if self.os_hints is None else self.os_hints
        return found.model_dump(mode="json", exclude_none=True) if found else {}


SINCE: Mapping[str, int] = {
    "description": 19,
    "tags": 52,
    "trusted_image_certificates": 63,
    "host": 74,
    "hypervisor_hostname": 74,
    "hostname": 90,
}
"""Key of a server -> minor number of the microversion that brought it."""
UNTIL: Mapping[str, int] = {"personality": 56}
"""Key of a server -> minor number of the last microversion that has it."""


FQDN = v(94)
"""Since when the host name of a guest may have a domain; before, it is one label."""
_LONGEST_LABEL = 63


def check_keys(call: Call, body: BaseModel, since: Mapping[str, int], until: Mapping[str, int]) -> None:
    """Raise BadInput for a key of a body that the call's microversion does not have, or not in this form."""
    for name in body.model_fields_set:
        if not v(since.get(name, 1)) <= call.version <= v(until.get(name, call.version.minor)):
            raise BadInput(f"Additional properties are not allowed ({name!r} was unexpected)")
    hostname = getattr(body, "hostname", None)
    if hostname and call.version < FQDN and ("." in hostname or len(hostname) > _LONGEST_LABEL):
        problem = f"Invalid input for field/attribute hostname. {hostname[:60]!r} is no label of a host name"
        raise BadInput(
            problem, f"up to {_LONGEST_LABEL} letters, digits and hyphens; with a domain since 2.{FQDN[1]}"
        )


def check_new_server(call: Call, server: NewServer) -> None:
    """Raise BadInput for what is not possible here, and for keys that the microversion does not have."""
    check_keys(call, server, SINCE, UNTIL)
    if server.networks is None and call.version >= v(37):
        raise BadInput("'networks' is a required property")
    if server.networks not in (None, "none", "auto", []):
        raise BadInput("There are no networks here: give 'none' or 'auto' for networks.")
    refuse_unsupported(server)
    for device in server.block_device_mapping_v2:
        _check_device(device, server.imageRef)


def refuse_unsupported(server: BaseModel) -> None:
    """Raise BadInput for keys whose values would be lost without anybody noticing."""
    for name, text in _UNSUPPORTED.items():
        if getattr(server, name, None):
            raise BadInput(text)


def _check_device(device: BlockDevice, image: str | None) -> None:
    is_boot_disk = device.source_type == "image" and device.destination_type in ("local", None)
    is_boot_disk &= device.boot_index in (0, None) and device.uuid == (image or device.uuid) and not device.no_device
    if wrong := [name for name in _OF_VOLUMES if getattr(device, name) is not None]:
        raise BadInput(f"Block Device Mapping is Invalid: the local boot disk is told no {wrong[0]}: leave it out.")
    if not device.delete_on_termination:
        raise BadInput("Block Device Mapping is Invalid: the local boot disk is deleted with its server.")
    if not is_boot_disk:
        raise BadInput(
            "Block Device Mapping is Invalid: there are no volumes here, only the image as local boot disk."
        )
