# SPDX-License-Identifier: Apache-2.0
"""Server groups: instances that want to be together, or apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

from roost.errors import FieldError
from roost.model import checks
from roost.model.item_access import AttributesAsItems
from roost.model.lazy import lazy
from roost.model.message_fields import FromMessage

POLICIES = ("affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity", "legacy")


@dataclass(frozen=True)
class ServerGroup(FromMessage, AttributesAsItems):
    """Members and the policy that binds them."""

    policy: str | None
    name: str = ""
    uuid: str | None = None
    members: tuple[str, ...] = ()
    """Uuids of the instances that belong to the group."""
    hosts: tuple[str, ...] = ()
    """Names of the hosts its members run on, those chosen earlier in the same request included."""
    rules: Mapping[str, Any] = field(default_factory=dict)

    unheld: ClassVar[Mapping[str, Any]] = MappingProxyType({"id": None, "user_id": None, "project_id": None})

    def __post_init__(self) -> None:
        if self.policy is not None and self.policy not in POLICIES:
            raise FieldError("policy", f"{checks.shown(self.policy)} is no policy", f"one of {', '.join(POLICIES)}")
        checks.optional_text(self.name, "name")
        checks.optional_text(self.uuid, "uuid")
        object.__setattr__(self, "members", checks.names(self.members, "members"))
        object.__setattr__(self, "hosts", checks.names(self.hosts, "hosts"))
        rules = dict(checks.mapping(self.rules, "rules"))
        checks.known_keys(rules, ["max_server_per_host"], "rules")
        if "max_server_per_host" in rules:
            # The openstack client sends this number as text.
            limit = rules["max_server_per_host"]
            limit = int(limit) if isinstance(limit, str) and limit.isdecimal() and len(limit) < 20 else limit
            rules["max_server_per_host"] = checks.whole_number(limit, "rules.max_server_per_host", least=1)
        object.__setattr__(self, "rules", checks.mapping(rules, "rules"))

    def updated(self, members: tuple[str, ...], hosts: tuple[str, ...]) -> ServerGroup:
        """The same group with other members and hosts, which are known to be good."""
        twin = object.__new__(ServerGroup)
        object.__setattr__(twin, "__dict__", {**self.__dict__, "members": members, "hosts": hosts})
        twin.__dict__.pop("member_set", None)
        return twin

    @lazy
    def member_set(self) -> frozenset[str]:
        """The members, to be looked up."""
        return frozenset(self.members)

    @property
    def policies(self) -> list[str]:
        """The policy as older releases had it: a list of one, or of none."""
        return [self.policy] if self.policy is not None else []

    @property
    def max_server_per_host(self) -> int:
        """How many members one host may take under anti-affinity; 1 unless the rules say more."""
        return int(self.rules.get("max_server_per_host", 1))
