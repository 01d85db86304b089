# SPDX-License-Identifier: Apache-2.0
"""Bodies of the actions on servers: what is beside the key of the action."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from roost.api.compute.body_types import ABSENT, Body, Name
from roost.api.compute.server_bodies import DiskConfig, Text, WrittenDetails
from roost.api.compute.server_metadata import Metadata


class ActionBody(Body):
    """What an action is told. Keys of some microversions alone are in `since` and `until`."""

    since: ClassVar[Mapping[str, int]] = {}
    """Key -> minor number of the microversion that brought it."""
    until: ClassVar[Mapping[str, int]] = {}
    """Key -> minor number of the last microversion that has it."""
    required: ClassVar[Mapping[str, tuple[int, int]]] = {}
    """Key -> minor numbers of the first and the last microversion that need it."""


class Nothing(ActionBody):
    """An action that is told nothing: null, or an empty object."""


class Resize(ActionBody):
    """Another flavor."""

    flavorRef: Text | int  # noqa: N815 - a name of the API
    disk_config: DiskConfig = Field(ABSENT, alias="OS-DCF:diskConfig")


class Migrate(ActionBody):
    """The host to which a server is moved; null: any."""

    since: ClassVar[Mapping[str, int]] = {"host": 56}

    host: Name | None = None


class LiveMigrate(ActionBody):
    """The host to which a running server is moved; null: any. There are no disks to be copied or shared."""

    since: ClassVar[Mapping[str, int]] = {"force": 30}
    until: ClassVar[Mapping[str, int]] = {"force": 67, "disk_over_commit": 24}
    required: ClassVar[Mapping[str, tuple[int, int]]] = {"disk_over_commit": (1, 24)}

    host: Name | None
    block_migration: bool | Literal["auto"]
    disk_over_commit: bool | None = None
    force: bool = False


class Evacuate(ActionBody):
    """The host on which a server of a dead host is built anew; null: any."""

    since: ClassVar[Mapping[str, int]] = {"force": 29}
    until: ClassVar[Mapping[str, int]] = {"force": 67, "onSharedStorage": 13}
    required: ClassVar[Mapping[str, tuple[int, int]]] = {"onSharedStorage": (1, 13)}

    host: Name | None = None
    adminPass: Text | None = None  # noqa: N815 - a name of the API
    onSharedStorage: bool | None = None  # noqa: N815 - a name of the API
    force: bool = False


class Rebuild(ActionBody, WrittenDetails):
    """The image from which a server is built anew, and what else changes of it."""

    since: ClassVar[Mapping[str, int]] = {
        "description": 19,
        "key_name": 54,
        "user_data": 57,
        "trusted_image_certificates": 63,
        "hostname": 90,
    }
    until: ClassVar[Mapping[str, int]] = {"personality": 56}

    imageRef: Text  # noqa: N815 - a name of the API
    name: Name = ABSENT
    metadata: Metadata = ABSENT
    adminPass: Text | None = None  # noqa: N815 - a name of the API
    preserve_ephemeral: bool = False
    key_name: Text | None = None
    user_data: Annotated[str, Field(max_length=65535)] | None = None
    personality: list[dict[str, Any]] = []
    trusted_image_certificates: list[Text] | None = None


class Unshelve(ActionBody):
    """Where a shelved server comes back; null: anywhere."""

    since: ClassVar[Mapping[str, int]] = {"availability_zone": 77, "host": 91}

    availability_zone: Name | None = None
    host: Name | None = None


class ResetState(ActionBody):
    """The state that a server is given."""

    state: Literal["active", "error"]
