# SPDX-License-Identifier: Apache-2.0
"""Hosts that are closed to a request by its server group, or by moves of its members, while it is placed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from roost.errors import NoValidHost, Refusal
from roost.hosts import HostTable
from roost.ledger.claim import ANTI_AFFINITY, GroupPlaces
from roost.model import Decision, RequestSpec, ServerGroup
from roost.model.decision import Step, build_unchecked

IGNORED = "ignore_hosts"
"""The check of the prefilter stage by which closed hosts are left out."""
STEP_NAME = "server_group"
"""The step in a decision that counts closed hosts."""


class ClosedHosts:
    """Hosts that are out for the rest of a request, each with the reason."""

    def __init__(self, reasons: Mapping[str, str] | None = None) -> None:
        self.reasons = dict(reasons or {})
        """Host -> why it takes no further member of a group."""

    def add(self, hosts: Iterable[str], reason: str) -> None:
        """Close hosts, for this reason unless they are closed already."""
        for host in hosts:
            self.reasons.setdefault(host, reason)

    def with_more(self, reasons: Mapping[str, str]) -> ClosedHosts:
        """These and further hosts."""
        return ClosedHosts({**reasons, **self.reasons}) if reasons else self

    def has_all(self, refusals: Collection[Refusal]) -> bool:
        """Whether all refusals are of closed hosts: the chooser does not heed them."""
        return all(refusal.group_uuid and refusal.host in self.reasons for refusal in refusals)

    def applied_to(self, spec: RequestSpec) -> RequestSpec:
        """The request without closed hosts."""
        return spec.changed(ignore_hosts=(*(spec.ignore_hosts or ()), *self.reasons)) if self.reasons else spec

    def explained(self, error: NoValidHost, spec: RequestSpec, table: HostTable) -> NoValidHost:
        """The error with a step of its own for closed hosts, apart from those that the request ignores."""
        if not self.reasons:
            return error
        steps: list[Step] = []
        for step in error.decision.steps:
            steps += self._apart(step, spec, table) if step.name == IGNORED else [step]
        return NoValidHost(build_unchecked(Decision, {**vars(error.decision), "steps": tuple(steps)}))

    def _apart(self, step: Step, spec: RequestSpec, table: HostTable) -> list[Step]:
        own = table.rows_of_hosts_ignoring_case(spec.ignore_hosts or ())
        closed = set(table.rows_of_hosts_ignoring_case(self.reasons)) - set(own)
        between = min(step.before, step.after + len(closed))
        ignored = step._replace(after=between)
        detail = next(iter(self.reasons.values()))
        return [*([ignored] if own else []), Step("claim", STEP_NAME, between, step.after, detail)]


def find_closed_sources(
    group: ServerGroup, places: GroupPlaces, own: Collection[str], table: HostTable
) -> dict[str, str]:
    """Host -> why members that move away from there leave no place for another; anti-affinity only.

    `own`: the instances to place and their migrations, whose places count as theirs.
    """
    if group.policy != ANTI_AFFINITY:
        return {}
    moving = Counter(host for host, owner in places.sources if owner not in own)
    return {
        host: f"{count} members of the anti-affinity group {group.uuid} are moving away from there"
        for host, count in moving.items()
        if count + _count_members(group.member_set - set(own), host, table) >= group.max_server_per_host
    }


def _count_members(members: frozenset[str], host: str, table: HostTable) -> int:
    return sum(table.count_on(row, members) for row in table.rows_of_host(host))


class _TrackedGroup:
    """Members of one group, and the hosts they run on, in order."""

    def __init__(self, members: tuple[str, ...], hosts: tuple[str, ...] | None) -> None:
        self.members, self.uuids = members, set(members)
        self.hosts, self.names = hosts, set(hosts or ())
        """None after a member left: to be looked up in the table."""


class GroupTracker:
    """The groups of requests placed on one table, by uuid or else by name. A new member is added incrementally."""

    def __init__(self, table: HostTable) -> None:
        self._table = table
        self._tracked: dict[str, _TrackedGroup] = {}

    def current(self, group: ServerGroup, new: Sequence[str]) -> ServerGroup:
        """The group with the members placed before, the new ones, and the hosts that all of them run on."""
        known = self._tracked.get(_key_of(group))
        if known is not None and known.hosts is not None and known.uuids.isdisjoint(new) and not group.members:
            members, hosts = (*known.members, *new), known.hosts
        else:
            members = tuple(dict.fromkeys((*group.members, *(known.members if known else ()), *new)))
            hosts = self._table.hosts_of(members)
        return group.updated(members, tuple(dict.fromkeys((*group.hosts, *hosts))) if group.hosts else hosts)

    def note(self, group: ServerGroup, new: Sequence[str], hosts: Iterable[str]) -> None:
        """Record that the new members of this group, which `current` returned, were placed on these hosts."""
        key = _key_of(group)
        if not key:
            return
        known = self._tracked.get(key)
        if known is not None and known.hosts is not None and len(known.members) + len(new) == len(group.members):
            known.members = group.members
            known.uuids.update(new)
            added = [host for host in dict.fromkeys(hosts) if host not in known.names]
            known.hosts += tuple(added)
            known.names.update(added)
        else:
            self._tracked[key] = _TrackedGroup(group.members, self._table.hosts_of(group.members))

    def on_copy(self, table: HostTable) -> GroupTracker:
        """A tracker of the same groups on a copy of the table; hosts are looked up again when they are needed."""
        twin = GroupTracker(table)
        twin._tracked = {key: _TrackedGroup(each.members, None) for key, each in self._tracked.items()}
        return twin

    def forget(self, group: ServerGroup, uuid: str | None) -> None:
        """Record that a member released a host; while it moves it is still a member."""
        known = self._tracked.get(_key_of(group))
        if known is not None:
            known.hosts = None
            if uuid in known.uuids and not self._table.rows_of_instance(uuid):
                known.uuids.discard(uuid)
                known.members = tuple(each for each in known.members if each != uuid)


def _key_of(group: ServerGroup) -> str:
    """The uuid of a group, else its name; empty where it has neither."""
    return group.uuid or group.name
