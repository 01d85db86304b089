# SPDX-License-Identifier: Apache-2.0
"""Rows of nova's `instances` as instances on hosts, with flavors as they were when the instances were placed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import select

from roost.errors import FieldError
from roost.hosts import Instance
from roost.hosts.instances import NO_PROPERTIES
from roost.messages.objects.aggregates_instances import split_system_metadata
from roost.messages.objects.flavor_image_group import flavor_from_object
from roost.model import Flavor
from roost.model.fields import MAPPING
from roost.model.resources import requested_amounts
from roost.nova_cloud.databases.cell_changes import PlacedInstance, as_utc
from roost.nova_cloud.databases.json_columns import decode_column
from roost.nova_cloud.databases.tables import instance_extra, instances
from roost.records.node_rows import JsonCache

SELECT_INSTANCES = select(instances, instance_extra.c.flavor).join_from(
    instances, instance_extra, instance_extra.c.instance_uuid == instances.c.uuid, isouter=True
)
DELETED_STATE = "deleted"
"""vm_state of an instance whose row is marked as deleted a moment later."""


class _SizedFlavor(NamedTuple):
    flavor: Flavor
    amounts: Mapping[str, int]


def is_placed(row: Any) -> bool:
    """Whether the row is live and has a host."""
    return not row.deleted and bool(row.host) and row.vm_state != DELETED_STATE


def decode_instance(row: Any, metadata: Mapping[str, str], texts: JsonCache, problems: list[str]) -> PlacedInstance:
    """The instance of a row with a host. A flavor that cannot be understood is left out, and said in `problems`."""
    try:
        sized = decode_column(row, "flavor", _current_flavor, texts)
    except FieldError as error:
        problems.append(f"the flavor of instance {row.uuid} is left out: {error}")
        sized = None
    properties, rest = split_system_metadata(metadata) if metadata else (NO_PROPERTIES, NO_PROPERTIES)
    instance = Instance(
        row.uuid,
        row.project_id,
        row.instance_type_id,
        properties,
        sized.amounts if sized else {},
        image_ref=row.image_ref or None,
        flavor=sized.flavor if sized else None,
        system_metadata=rest,
        created_at=as_utc(row.created_at),
    )
    return PlacedInstance(instance, row.host, row.node, row.user_id, row.vm_state, row.task_state)


def _current_flavor(value: Any) -> _SizedFlavor | None:
    """The flavor that the instance has now: `cur` of instance_extra, beside the `old` and `new` of a resize."""
    current = MAPPING.strict(value, "flavor").get("cur")
    if current is None:
        return None
    flavor = flavor_from_object(current, "flavor.cur")
    return _SizedFlavor(flavor, requested_amounts(flavor))
