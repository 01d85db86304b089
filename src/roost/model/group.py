# SPDX-License-Identifier: Apache-2.0
"""Groupings: server groups, whose instances share or avoid hosts, and aggregates of hosts with metadata.

Filters and weighers read an aggregate's metadata through `HasMetadata`. `Service` is the state of a host's compute
service.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Protocol

from roost.model.fields import (
    AT_LEAST_ONE,
    FLAG,
    IDENTIFIER,
    MAPPING,
    NUMBER,
    Checked,
    Flag,
    Label,
    NameTuple,
    OptionalText,
    Text,
    TextMapping,
    refuse_unknown,
)
from roost.model.flavor import AttributesAsItems
from roost.model.kinds import Kind, OneOf, OrNull, Schema, lazy
from roost.model.message_fields import FromMessage
from roost.model.uuids import OptionalUuid, UuidTuple

GROUP_POLICIES = ("affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity", "legacy")
MAX_SERVER = "max_server_per_host"


class GroupRules(Kind[Mapping[str, Any]]):
    """The kind of a group's rules: empty, or max_server_per_host with a number of at least 1."""

    def strict(self, value: Any, field: str) -> Mapping[str, Any]:
        """A read-only mapping. The number may be text, because the openstack client sends text."""
        rules = dict(MAPPING.strict(value, field))
        refuse_unknown(rules, [MAX_SERVER], field)
        if MAX_SERVER in rules:
            limit = rules[MAX_SERVER]
            limit = int(limit) if isinstance(limit, str) and limit.isdecimal() and len(limit) < 20 else limit
            rules[MAX_SERVER] = AT_LEAST_ONE.strict(limit, f"{field}.{MAX_SERVER}")
        return MAPPING.strict(rules, field)

    @property
    def schema(self) -> Schema:
        """An object whose only allowed property is max_server_per_host."""
        limit = {"type": ["integer", "string"], "minimum": 1, "pattern": "^[0-9]+$"}
        return {"type": "object", "additionalProperties": False, "properties": {MAX_SERVER: limit}}


_POLICY = OrNull(OneOf(GROUP_POLICIES, "is no policy", f"one of {', '.join(GROUP_POLICIES)}"))


@dataclass(frozen=True)
class ServerGroup(Checked, FromMessage, AttributesAsItems):
    """A server group: its policy, members, and the hosts that they run on."""

    policy: Annotated[str | None, _POLICY]
    name: Label = ""
    uuid: OptionalUuid = None
    members: UuidTuple = ()
    """Uuids of the instances that belong to the group."""
    hosts: NameTuple = ()
    """Names of the hosts its members run on, including hosts chosen earlier in the same request."""
    rules: Annotated[Mapping[str, Any], GroupRules()] = field(default_factory=dict)

    unheld: ClassVar[Mapping[str, Any]] = MappingProxyType({"id": None, "user_id": None, "project_id": None})

    def updated(self, members: tuple[str, ...], hosts: tuple[str, ...]) -> ServerGroup:
        """A copy with the given members and hosts, which must be valid: they are not checked."""
        twin = object.__new__(ServerGroup)
        object.__setattr__(twin, "__dict__", {**self.__dict__, "members": members, "hosts": hosts})
        twin.__dict__.pop("member_set", None)
        return twin

    @lazy
    def member_set(self) -> frozenset[str]:
        """The members as a set."""
        return frozenset(self.members)

    @property
    def policies(self) -> list[str]:
        """The policy as a list of one, or an empty list: the form of older nova releases."""
        return [self.policy] if self.policy is not None else []

    @property
    def max_server_per_host(self) -> int:
        """Number of members that one host may run under anti-affinity; 1 by default."""
        return int(self.rules.get(MAX_SERVER, 1))


@dataclass(frozen=True)
class Aggregate(Checked):
    """A named set of hosts with metadata. `hosts` are host names; `metadata` maps keys to texts."""

    name: Text
    metadata: TextMapping = field(default_factory=dict, hash=False)
    hosts: NameTuple = field(default=(), hash=False)
    id: Annotated[Any, IDENTIFIER] = None
    uuid: OptionalText = None

    @property
    def availability_zone(self) -> str | None:
        """The availability zone that the aggregate defines; None if it defines none."""
        return self.metadata.get("availability_zone")


class HasMetadata(Protocol):
    """An aggregate, in any form."""

    @property
    def metadata(self) -> Mapping[str, str]:
        """Key -> text."""


def raw_values(aggregates: Collection[HasMetadata], key: str) -> set[str]:
    """The metadata texts under `key`, not split, of all aggregates that define it."""
    return {each.metadata[key] for each in aggregates if key in each.metadata}


def split_values(aggregates: Collection[Aggregate], key: str) -> set[str]:
    """The metadata values under `key`, split at commas and stripped."""
    return {piece.strip() for raw in raw_values(aggregates, key) for piece in raw.split(",")}


def merged_metadata(aggregates: Collection[Aggregate], key: str | None = None) -> dict[str, set[str]]:
    """Metadata key -> set of values, split at commas. With `key`, only aggregates that define it are merged."""
    merged: dict[str, set[str]] = {}
    for aggregate in aggregates:
        if key is None or key in aggregate.metadata:
            for name, raw in aggregate.metadata.items():
                merged.setdefault(name, set()).update(piece.strip() for piece in raw.split(","))
    return merged


def smallest_value(aggregates: Collection[Aggregate], key: str, cast: type[int] | type[float]) -> float | None:
    """The smallest number under `key`; None if no aggregate defines it, or if any value is not a number."""
    raw = raw_values(aggregates, key)
    if not raw:
        return None
    try:
        numbers = [cast(value) for value in raw]
    except ValueError:
        return None
    return next((each for each in numbers if each != each), min(numbers))  # NaN wins, independent of the order


@dataclass(frozen=True)
class Service(Checked):
    """State of a host's compute service: disabled, forced down, and its heartbeat."""

    disabled: Flag = False
    disabled_reason: OptionalText = None
    forced_down: Flag = False
    up: Annotated[bool | None, OrNull(FLAG)] = None
    """Whether the service is up, if reported directly; None if it follows from the heartbeat."""
    seconds_since_seen: Annotated[float | None, OrNull(NUMBER)] = None
    """Age of the last heartbeat in seconds; negative if the host's clock is ahead. None if unknown."""

    def is_up(self, down_after_seconds: float) -> bool:
        """Whether it is not forced down, and its heartbeat is at most `down_after_seconds` old or ahead."""
        if self.forced_down:
            return False
        if self.up is not None:
            return self.up
        return self.seconds_since_seen is None or abs(self.seconds_since_seen) <= down_after_seconds

    def as_record(self, is_up: bool) -> dict[str, Any]:
        """The mapping that filters of nova read as `host_state.service`."""
        return {
            "disabled": self.disabled,
            "disabled_reason": self.disabled_reason,
            "forced_down": self.forced_down,
            "up": is_up,
        }
