# SPDX-License-Identifier: Apache-2.0
"""Aggregates: list, show, create, change, delete; add and remove hosts; set metadata."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Response
from pydantic import AfterValidator, ConfigDict, model_validator

from roost.api.call import Call, CurrentCall, accepted, answer
from roost.api.compute.body_types import ABSENT, Body, HostName, MetadataKey, MetadataValue, Name
from roost.api.compute.services import default_zone
from roost.api.microversions import naive_time, v
from roost.records.aggregates import (
    AggregateRecord,
    add_host_to_aggregate,
    create_aggregate,
    delete_aggregate,
    get_aggregate,
    list_aggregates,
    remove_host_from_aggregate,
    update_aggregate,
)

RULE, ZONE = "os_compute_api:os-aggregates", "availability_zone"
SHOWS_UUID = v(41)
ACTIONS = ("add_host", "remove_host", "set_metadata")
ACTION_RULES = tuple(f"{RULE}:{action}" for action in ACTIONS)


def _without_colon(name: str) -> str:
    if ":" in name:
        raise ValueError("the name of a zone has no colon")
    return name


ZoneName = Annotated[Name, AfterValidator(_without_colon)]


# --- bodies ------------------------------------------------------------------------------------------


class AggregateFields(Body):
    """What a client says of a new aggregate."""

    name: Name
    availability_zone: ZoneName | None = None


class AggregateToCreate(Body):
    """The body that creates an aggregate."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"aggregate": {"name": "ssd", "availability_zone": "az1"}}]}
    )
    aggregate: AggregateFields


class AggregateChanges(Body):
    """What changes of an aggregate: at least one of its name and its zone."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})
    name: Name = ABSENT
    availability_zone: ZoneName | None = None

    @model_validator(mode="after")
    def _names_something(self) -> AggregateChanges:
        if not self.model_fields_set:
            raise ValueError("name or availability_zone must be given")
        return self


class AggregateToUpdate(Body):
    """The body that changes an aggregate."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"aggregate": {"name": "fast"}}]})
    aggregate: AggregateChanges


class NamedHost(Body):
    """A host that is added or removed."""

    host: HostName


class Metadata(Body):
    """Metadata to set; null deletes an entry."""

    metadata: dict[MetadataKey, MetadataValue | None]


class AggregateAction(Body):
    """The body of an action: exactly one of them."""

    model_config = ConfigDict(
        json_schema_extra={"minProperties": 1, "maxProperties": 1, "examples": [{"add_host": {"host": "host1"}}]}
    )
    add_host: NamedHost = ABSENT
    remove_host: NamedHost = ABSENT
    set_metadata: Metadata = ABSENT

    @model_validator(mode="after")
    def _is_one(self) -> AggregateAction:
        if len(self.model_fields_set) != 1:
            raise ValueError(f"exactly one of {', '.join(ACTIONS)} must be given")
        return self


# --- read --------------------------------------------------------------------------------------------


def list_all(call: CurrentCall) -> Response:
    """List all aggregates."""
    found = list_aggregates(call.parts.engine)
    return answer({"aggregates": [_shown_whole(call, each) for each in found]})


def show(aggregate_id: int, call: CurrentCall) -> Response:
    """Show one aggregate."""
    return _answer(call, get_aggregate(call.parts.engine, aggregate_id))


# --- write -------------------------------------------------------------------------------------------


def create(body: AggregateToCreate, call: CurrentCall) -> Response:
    """Create an aggregate without hosts."""
    wanted, parts = body.aggregate, call.parts
    made = create_aggregate(parts.engine, wanted.name, wanted.availability_zone, parts.servers.times)
    return answer({"aggregate": _shown(call, made)})


def change(aggregate_id: int, body: AggregateToUpdate, call: CurrentCall) -> Response:
    """Rename an aggregate, or change its zone; a zone of null removes it."""
    given = body.aggregate.model_dump(exclude_unset=True)
    metadata = {ZONE: given[ZONE]} if ZONE in given else None
    return _answer(call, _update(call, aggregate_id, name=given.get("name"), metadata=metadata))


def remove(aggregate_id: int, call: CurrentCall) -> Response:
    """Delete an aggregate that has no hosts."""
    delete_aggregate(call.parts.engine, aggregate_id)
    return accepted(200)


def act(aggregate_id: int, body: AggregateAction, call: CurrentCall) -> Response:
    """Add or remove a host, or set metadata."""
    (action,) = body.model_fields_set
    call.authorize(f"{RULE}:{action}")
    if action == "set_metadata":
        return _answer(call, _update(call, aggregate_id, metadata=body.set_metadata.metadata))
    move, named = (
        (add_host_to_aggregate, body.add_host)
        if action == "add_host"
        else (remove_host_from_aggregate, body.remove_host)
    )
    parts = call.parts
    return _answer(call, move(parts.engine, aggregate_id, named.host, parts.servers.times, default_zone(call)))


def _update(call: Call, aggregate_id: int, **changes: Any) -> AggregateRecord:
    parts = call.parts
    return update_aggregate(parts.engine, aggregate_id, parts.servers.times, default_zone(call), **changes)


# --- answers -----------------------------------------------------------------------------------------


def _answer(call: Call, aggregate: AggregateRecord) -> Response:
    return answer({"aggregate": _shown_whole(call, aggregate)})


def _shown_whole(call: Call, aggregate: AggregateRecord) -> dict[str, Any]:
    return _shown(call, aggregate) | {"hosts": list(aggregate.hosts), "metadata": dict(aggregate.metadata)}


def _shown(call: Call, aggregate: AggregateRecord) -> dict[str, Any]:
    """An aggregate without hosts and metadata, as the answer to its creation has it."""
    shown = {
        "id": aggregate.id,
        "name": aggregate.name,
        "availability_zone": aggregate.availability_zone,
        "created_at": naive_time(aggregate.created_at),
        "updated_at": naive_time(aggregate.updated_at),
        "deleted": False,
        "deleted_at": None,
    }
    return shown | ({"uuid": aggregate.uuid} if call.version >= SHOWS_UUID else {})
