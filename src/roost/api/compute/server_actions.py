# SPDX-License-Identifier: Apache-2.0
"""Actions on servers, a row of ACTIONS each: POST /servers/ID/action with the key of the action in the body.

Each begins, and is answered at once; what becomes of it is seen in the server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from fastapi import Response
from pydantic import ConfigDict, Field, RootModel, ValidationError

from roost.api.call import Call, CurrentCall, accepted, answer, named_in_body
from roost.api.compute.body_types import ABSENT, Body, Name
from roost.api.compute.new_servers import admin_password, find_flavor, find_image
from roost.api.compute.server_bodies import DiskConfig, Metadata, Text, WrittenDetails, check_keys, refuse_unsupported
from roost.api.compute.servers import describe_changed_server
from roost.api.microversions import v
from roost.api.problems import text_of_invalid
from roost.client.interface import CloudClient
from roost.errors import BadInput
from roost.records.server import Server
from roost.records.server_steps import cannot_while


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


SHOW = "os_compute_api:servers:show"
TO_HOST = "os_compute_api:os-migrate-server:migrate:host"
LIVE_TO_HOST = "os_compute_api:os-migrate-server:migrate_live:host"
UNSHELVE_TO_HOST = "os_compute_api:os-shelve:unshelve_to_host"

Do = Callable[[Call, Server, Any], Response]


@dataclass(frozen=True)
class Action:
    """An action on servers."""

    key: str
    """In the body."""
    body: type[ActionBody]
    rule: str
    do: Do


def _operator(call: Call) -> CloudClient:
    """A client for what conductors do for operators alone; who is one for this action, its rule has decided."""
    return call.client_with(is_admin=True)


# --- what actions do ---------------------------------------------------------------------------------


def resize(call: Call, server: Server, body: Resize) -> Response:
    """Begin to give a server another flavor."""
    flavor = find_flavor(call, str(body.flavorRef))
    details = body.model_dump(include={"disk_config"}, exclude_unset=True)
    call.client.resize_server(server.uuid, flavor, details=details)
    return accepted()


def confirm_resize(call: Call, server: Server, _: Nothing) -> Response:
    """Begin to remove what a resized server left on its former host."""
    call.client.confirm_resize(server.uuid)
    return accepted(204)


def revert_resize(call: Call, server: Server, _: Nothing) -> Response:
    """Begin to bring a resized server back."""
    call.client.revert_resize(server.uuid)
    return accepted()


def migrate(call: Call, server: Server, body: Migrate) -> Response:
    """Begin to move a server, stopped meanwhile."""
    if body.host is not None:
        call.authorize_for(TO_HOST, server)
    _operator(call).migrate_server_cold(server.uuid, body.host)
    return accepted()


def live_migrate(call: Call, server: Server, body: LiveMigrate) -> Response:
    """Begin to move a running server. Up to version 2.29 a named host is taken without asking the scheduler."""
    if body.host is not None:
        call.authorize_for(LIVE_TO_HOST, server)
    is_forced = body.force or (body.host is not None and call.version < v(30))
    _operator(call).live_migrate_server(server.uuid, body.host, is_forced)
    return accepted()


def evacuate(call: Call, server: Server, body: Evacuate) -> Response:
    """Begin to build a server of a dead host anew. Up to version 2.28 a named host is taken without asking."""
    is_forced = body.force or (body.host is not None and call.version < v(29))
    _operator(call).evacuate_server(server.uuid, body.host, is_forced)
    return answer({"adminPass": admin_password(body.adminPass)}) if call.version < v(14) else accepted(200)


def rebuild(call: Call, server: Server, body: Rebuild) -> Response:
    """Begin to build a server anew where it is."""
    refuse_unsupported(body)
    call.client.rebuild_server(server.uuid, find_image(call, body.imageRef), details=body.details())
    found = describe_changed_server(call, call.find_server(server.uuid, SHOW))
    found |= {key: None for minor, key in _OF_REBUILDS if call.version >= v(minor)}
    return answer({"server": found | {"adminPass": admin_password(body.adminPass)}}, 202)


_OF_REBUILDS = ((54, "key_name"), (57, "user_data"))
"""Minor number of the microversion, and what it brought to the answer to a rebuild; no server here has any."""


def shelve(call: Call, server: Server, _: Nothing) -> Response:
    """Begin to take a server off its host."""
    call.client.shelve_server(server.uuid)
    return accepted()


def shelve_offload(call: Call, server: Server, _: Nothing) -> Response:
    """Refuse: a shelved server has left its host already."""
    raise cannot_while(server, "shelveOffload")


def unshelve(call: Call, server: Server, body: Unshelve) -> Response:
    """Begin to bring a shelved server onto a host; with null for the zone, it may be in any from now on."""
    if body.host is not None:
        call.authorize_for(UNSHELVE_TO_HOST, server)
    is_unpinned = "availability_zone" in body.model_fields_set and body.availability_zone is None
    _operator(call).unshelve_server(server.uuid, body.host, "" if is_unpinned else body.availability_zone)
    return accepted()


def start(call: Call, server: Server, _: Nothing) -> Response:
    """Begin to start a stopped server."""
    call.client.start_server(server.uuid)
    return accepted()


def stop(call: Call, server: Server, _: Nothing) -> Response:
    """Begin to stop a server."""
    call.client.stop_server(server.uuid)
    return accepted()


def reset_state(call: Call, server: Server, body: ResetState) -> Response:
    """Give a server the state active or error, whatever is being done to it."""
    _operator(call).reset_server_state(server.uuid, body.state)
    return accepted()


ACTIONS = {
    action.key: action
    for action in (
        Action("resize", Resize, "os_compute_api:servers:resize", resize),
        Action("confirmResize", Nothing, "os_compute_api:servers:confirm_resize", confirm_resize),
        Action("revertResize", Nothing, "os_compute_api:servers:revert_resize", revert_resize),
        Action("migrate", Migrate, "os_compute_api:os-migrate-server:migrate", migrate),
        Action("os-migrateLive", LiveMigrate, "os_compute_api:os-migrate-server:migrate_live", live_migrate),
        Action("evacuate", Evacuate, "os_compute_api:os-evacuate", evacuate),
        Action("rebuild", Rebuild, "os_compute_api:servers:rebuild", rebuild),
        Action("shelve", Nothing, "os_compute_api:os-shelve:shelve", shelve),
        Action("unshelve", Unshelve, "os_compute_api:os-shelve:unshelve", unshelve),
        Action("shelveOffload", Nothing, "os_compute_api:os-shelve:shelve_offload", shelve_offload),
        Action("os-start", Nothing, "os_compute_api:servers:start", start),
        Action("os-stop", Nothing, "os_compute_api:servers:stop", stop),
        Action("os-resetState", ResetState, "os_compute_api:os-admin-actions:reset_state", reset_state),
    )
}
"""Key in the body -> action."""
RULES = tuple(action.rule for action in ACTIONS.values())


# --- the URL -----------------------------------------------------------------------------------------


def _schema() -> dict[str, Any]:
    """What a body may be, for OpenAPI: an object with the key of one action."""
    ref = {action.key: action.body.model_json_schema() for action in ACTIONS.values()}
    bodies: dict[str, Any] = {key: {"anyOf": [found, {"type": "null"}]} for key, found in ref.items()}
    only = {"minProperties": 1, "maxProperties": 1, "additionalProperties": False}
    return {"type": "object", "properties": bodies, **only, "examples": [{"resize": {"flavorRef": "web"}}]}


class ActionRequest(RootModel[dict[str, Any]]):
    """The key of one action, and what it is told."""

    model_config = ConfigDict(json_schema_extra=lambda schema: _replace(schema, _schema()))


def _replace(schema: dict[str, Any], by: dict[str, Any]) -> None:
    schema.clear()
    schema.update(by)


def act_on_server(server_id: str, body: ActionRequest, call: CurrentCall) -> Response:
    """Begin the action that the body names."""
    action, value = _find_action(body.root)
    call.authorize(action.rule)
    wanted = _parse(call, action, value)
    server = call.find_server(server_id, action.rule)
    with named_in_body():
        return action.do(call, server, wanted)


def _find_action(body: dict[str, Any]) -> tuple[Action, Any]:
    """The action whose key is in the body, and what it is told. BadInput unless there is just one."""
    if len(body) != 1:
        raise BadInput(f"The body has to name one action, and names {len(body)}.")
    ((key, value),) = body.items()
    if key not in ACTIONS:
        raise BadInput(f"There is no such action: {key[:60]}")
    return ACTIONS[key], value


def _parse(call: Call, action: Action, value: Any) -> ActionBody:
    """What the action is told; BadInput where it cannot be, or where the microversion has it otherwise."""
    try:
        found = action.body.model_validate({} if value is None else value)
    except ValidationError as error:
        first = [{**each, "loc": (action.key, *each["loc"])} for each in error.errors(include_url=False)]
        raise BadInput(text_of_invalid(first)) from None
    check_keys(call, found, action.body.since, action.body.until)
    for name, (first_minor, last_minor) in action.body.required.items():
        if v(first_minor) <= call.version <= v(last_minor) and name not in found.model_fields_set:
            raise BadInput(f"{name!r} is a required property")
    return found
