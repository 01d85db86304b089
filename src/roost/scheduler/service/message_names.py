# SPDX-License-Identifier: Apache-2.0
"""Checks of what a message to a scheduler names: hosts, uuids of instances, and all that a claim writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from roost.errors import FieldError
from roost.model import RequestSpec
from roost.model.fields import ListOf
from roost.model.kinds import Matching
from roost.model.uuids import LONGEST_UUID, UUID, canonical_uuid

_NAME = Matching(r"(?s:.+)", "is no name")
_STORABLE = "[^\0\ud800-\udfff]"
"""A character that every database can hold."""
_STORED_NAME = Matching(_STORABLE + "{1,255}", "is no name", "at most 255 characters, as Unicode has them")
"""A name that is written with a claim, or looked up."""
_STORED_UUID = Matching(
    f"{_STORABLE}{{1,{LONGEST_UUID}}}", "does not fit where uuids are kept", f"at most {LONGEST_UUID} characters"
)
"""A uuid, or another text in its place, that is written with a claim, or looked up."""
_NAMES = ListOf(_NAME, make=list, types=(Sequence,))
_UUIDS = ListOf(UUID)


def uuids_of(spec: RequestSpec, request_spec: Any, instance_uuids: Any) -> list[str] | None:
    """Uuids of the instances: of the message, of the dict of older releases, or of a request for one; else None."""
    given = instance_uuids
    if given is None and isinstance(request_spec, Mapping):
        given = request_spec.get("instance_uuids")
    if given is not None:
        # Claims of several requests share a transaction: what the database would refuse must not get that far.
        return list(_UUIDS.strict(distinct_uuids(given, "instance_uuids"), "instance_uuids"))
    if spec.instance_uuid and spec.num_instances == 1:
        return [UUID.strict(spec.instance_uuid, "instance_uuid")]
    return None


def distinct_uuids(value: Any, field: str) -> list[str]:
    """Uuids in their one spelling, and other texts; no two are the same."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise FieldError(field, "is no list of uuids")
    found = [canonical_uuid(each) for each in _NAMES.strict(value, field)]
    if len(set(found)) < len(found):
        raise FieldError(field, "names an instance twice")
    return found


def checked_host(value: Any) -> str:
    """The name of a host in a message; FieldError for anything else."""
    return _NAME.strict(value, "host_name")


def checked_uuid(value: Any) -> str:
    """The uuid of an instance in its one spelling; FieldError for what a database cannot hold."""
    return _STORED_UUID.strict(canonical_uuid(value) if isinstance(value, str) else value, "instance_uuid")


def check_names(spec: RequestSpec) -> None:
    """FieldError for the first name that a database cannot hold."""
    names = {"project_id": spec.project_id, "user_id": spec.user_id}
    if group := spec.instance_group:
        names["instance_group.name"] = group.name
        if group.uuid:
            _STORED_UUID.strict(group.uuid, "instance_group.uuid")
    if spec.requested_destination:
        names["requested_destination.cell"] = spec.requested_destination.cell
    for field, value in names.items():
        if value:
            _STORED_NAME.strict(value, field)
