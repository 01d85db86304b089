# SPDX-License-Identifier: Apache-2.0
"""Server groups: list, show, create, delete; and the limits of a project, which in Roost limit nothing.

A group has a list of one policy; since 2.64 a policy, with rules. Limits show what a project uses.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Query, Response
from pydantic import ConfigDict, Field

from roost.api.call import Call, CurrentCall, accepted, answer
from roost.api.compute.body_types import ABSENT, LARGEST_NUMBER, Body, Name, Positive
from roost.api.compute.server_list import PageLimit, page_size
from roost.api.microversions import Microversion, v
from roost.errors import BadInput
from roost.records.group_catalogue import (
    GroupRecord,
    NewGroup,
    count_groups,
    create_group,
    delete_group,
    get_group,
    list_groups,
)

RULE = "os_compute_api:os-server-groups"
SHOWS_OWNER, SOFT, ONE_POLICY = v(13), v(15), v(64)
Policy = Literal["anti-affinity", "affinity", "soft-anti-affinity", "soft-affinity"]


# --- bodies ------------------------------------------------------------------------------------------


class Rules(Body):
    """Rules of an anti-affinity group."""

    max_server_per_host: Positive = ABSENT


class GroupFields(Body):
    """What a client says of a new group: `policy` and `rules` since 2.64, before `policies`, a list of one."""

    name: Name
    policies: Annotated[list[Policy], Field(min_length=1, max_length=1)] = ABSENT
    policy: Policy = ABSENT
    rules: Rules = ABSENT


class GroupToCreate(Body):
    """The body that creates a group."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"server_group": {"name": "web", "policy": "anti-affinity"}}]}
    )
    server_group: GroupFields


# --- read --------------------------------------------------------------------------------------------


def list_all(
    call: CurrentCall,
    all_projects: str | None = None,
    limit: PageLimit = None,
    offset: Annotated[int, Query(ge=0, le=LARGEST_NUMBER)] = 0,
) -> Response:
    """List the groups of the project, or with all_projects of all."""
    project: str | None = call.caller.project_id
    if all_projects is not None:
        call.authorize(f"{RULE}:index:all_projects")
        project = None
    found = list_groups(call.parts.engine, project, offset=offset, limit=page_size(call, limit))
    return answer({"server_groups": [_shown(call, each) for each in found]})


def show(group_id: str, call: CurrentCall) -> Response:
    """Show one group."""
    return answer({"server_group": _shown(call, _find(call, group_id, "show"))})


def _find(call: Call, group_id: str, action: str) -> GroupRecord:
    """The group with this uuid; UnknownName for one that the caller may not see, Forbidden by the rule."""
    found = get_group(call.parts.engine, group_id, None if call.is_admin else call.caller.project_id)
    owner = found.project_id if found.project_id or action != "show" else call.caller.project_id
    call.authorize(f"{RULE}:{action}", {"project_id": owner, "user_id": found.user_id})
    return found


# --- write -------------------------------------------------------------------------------------------


def create(body: GroupToCreate, call: CurrentCall) -> Response:
    """Create a group of the project, without members."""
    given, caller = body.server_group, call.caller
    rules = given.rules.model_dump(exclude_unset=True) if given.rules else {}
    wanted = NewGroup(given.name, _policy_of(call, given), rules, caller.project_id, caller.user_id)
    return answer({"server_group": _shown(call, create_group(call.parts.engine, wanted, call.parts.servers.times))})


def _policy_of(call: Call, given: GroupFields) -> str:
    """The policy, from the keys that the version has."""
    own, other = (
        (("policy", "rules"), ("policies",)) if call.version >= ONE_POLICY else (("policies",), ("policy", "rules"))
    )
    if wrong := sorted(given.model_fields_set.intersection(other)):
        raise BadInput(f"Invalid input for field/attribute server_group. Additional properties: {', '.join(wrong)}")
    if own[0] not in given.model_fields_set:
        raise BadInput(f"Invalid input for field/attribute server_group. {own[0]!r} is a required property")
    policy = given.policy if call.version >= ONE_POLICY else given.policies[0]
    if policy.startswith("soft-") and call.version < SOFT:
        raise BadInput(f"Invalid input for field/attribute policies. {policy!r} is one since version {SOFT}")
    return policy


def remove(group_id: str, call: CurrentCall) -> Response:
    """Delete a group; its members stay where they are."""
    delete_group(call.parts.engine, _find(call, group_id, "delete").uuid)
    return accepted(204)


# --- answers -----------------------------------------------------------------------------------------


def _shown(call: Call, group: GroupRecord) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": group.uuid, "name": group.name, "members": list(group.members)}
    if call.version >= ONE_POLICY:
        shown |= {"policy": group.policy, "rules": group.rules}
    else:
        shown |= {"policies": [group.policy] if group.policy else [], "metadata": {}}
    if call.version >= SHOWS_OWNER:
        shown |= {"project_id": group.project_id or "", "user_id": group.user_id or ""}
    return shown


UNLIMITED = -1
_ALWAYS = (
    *("maxTotalInstances", "maxTotalCores", "maxTotalRAMSize", "maxTotalKeypairs", "maxServerMeta"),
    *("maxServerGroups", "maxServerGroupMembers"),
)
_ENDING: tuple[tuple[Microversion, dict[str, int]], ...] = (
    (v(36), dict.fromkeys(("maxSecurityGroups", "maxSecurityGroupRules", "maxTotalFloatingIps"), UNLIMITED)),
    (v(36), {"totalSecurityGroupsUsed": 0, "totalFloatingIpsUsed": 0}),
    (v(39), {"maxImageMeta": UNLIMITED}),
    (v(57), {"maxPersonality": UNLIMITED, "maxPersonalitySize": UNLIMITED}),
)
"""Version that no longer has them -> limits and counts of what Roost does not have."""
OTHER_PROJECT = "os_compute_api:limits:other_project"


def show_limits(
    call: CurrentCall,
    tenant_id: Annotated[str | None, Query(max_length=255)] = None,
    reserved: Annotated[str | None, Query(max_length=255, description="nothing is reserved: no effect")] = None,
) -> Response:
    """Show what a project uses, by default the caller's own."""
    project = call.caller.project_id
    if tenant_id is not None and tenant_id != project:
        call.authorize(OTHER_PROJECT)
        project = tenant_id
    use = call.parts.servers.count_use(project)
    absolute = dict.fromkeys(_ALWAYS, UNLIMITED) | {
        "totalInstancesUsed": use.servers,
        "totalCoresUsed": use.vcpus,
        "totalRAMUsed": use.memory_mb,
        "totalServerGroupsUsed": count_groups(call.parts.engine, project),
    }
    for end, limits in _ENDING:
        absolute |= limits if call.version < end else {}
    return answer({"limits": {"rate": [], "absolute": absolute}})
