# SPDX-License-Identifier: Apache-2.0
"""Server groups: instances that share hosts (affinity) or avoid each other (anti-affinity)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Any, ClassVar

from roost.model.fields import AT_LEAST_ONE, MAPPING, Checked, Label, NameTuple, refuse_unknown
from roost.model.flavor import AttributesAsItems
from roost.model.kinds import Kind, OneOf, OrNull, Schema
from roost.model.lazy import lazy
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
