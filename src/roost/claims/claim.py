# SPDX-License-Identifier: Apache-2.0
"""What is claimed: so much of each resource class, of one node, for one instance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from roost.model.consumers import Use
from roost.model.request import RequestSpec

ANTI_AFFINITY, AFFINITY = "anti-affinity", "affinity"
STRICT = (ANTI_AFFINITY, AFFINITY)
"""Policies that no number of schedulers may break."""


NO_USE = Use()


class StrictGroup(NamedTuple):
    """A server group whose policy the ledger guards."""

    uuid: str
    policy: str
    max_server_per_host: int = 1
    name: str = ""


@dataclass(frozen=True)
class Claim:
    """One instance on one node."""

    consumer_uuid: str
    node_uuid: str
    amounts: Mapping[str, int]
    """Per resource class; a bare-metal node is given out whole, whatever is asked."""
    use: Use = NO_USE
    project_id: str | None = None
    user_id: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    """What rules ask about instances elsewhere: flavor_id, image_props."""
    group: StrictGroup | None = None


def claim_for(spec: RequestSpec, node_uuid: str) -> Claim:
    """What a request, as a host took it in, claims of that host's node."""
    flavor, group = spec.flavor, spec.instance_group
    details: dict[str, Any] = {} if flavor.id is None else {"flavor_id": flavor.id}
    if spec.image and spec.image.properties:
        properties = spec.image.properties
        details["image_props"] = {name: properties.text_of(name) for name in properties}
    return Claim(
        consumer_uuid=str(spec.instance_uuid),
        node_uuid=node_uuid,
        amounts=spec.amounts,
        use=Use(flavor.memory_mb, flavor.root_gb + flavor.ephemeral_gb, flavor.vcpus),
        project_id=spec.project_id,
        user_id=spec.user_id,
        details=details,
        group=StrictGroup(group.uuid, group.policy, group.max_server_per_host, group.name)
        if group is not None and group.uuid and group.policy in STRICT
        else None,
    )
