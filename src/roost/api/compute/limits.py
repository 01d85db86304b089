# SPDX-License-Identifier: Apache-2.0
"""Limits of a project: what it uses; Roost limits nothing."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Response

from roost.api.call import CurrentCall, answer
from roost.api.microversions import Microversion, v
from roost.records.group_catalogue import count_groups

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


def show(
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
