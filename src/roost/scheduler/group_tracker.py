# SPDX-License-Identifier: Apache-2.0
"""Members of server groups and the hosts they run on, tracked from one request to the next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from roost.hosts import HostTable
from roost.model.group import ServerGroup


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
