# SPDX-License-Identifier: Apache-2.0
"""Server groups from one request to the next: who is in them, and where their members run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from roost.hosts import HostTable
from roost.model.group import ServerGroup


class _TrackedGroup:
    """One group: its members, and the hosts they run on, in order."""

    def __init__(self, members: tuple[str, ...], hosts: tuple[str, ...] | None) -> None:
        self.members, self.uuids = members, set(members)
        self.hosts, self.names = hosts, set(hosts or ())
        """None where somebody left: to be looked up."""


class GroupTracker:
    """The groups of requests placed on one table, by uuid or else by name. A member costs what it changes."""

    def __init__(self, table: HostTable) -> None:
        self._table = table
        self._known: dict[str, _TrackedGroup] = {}

    def current(self, group: ServerGroup, new: Sequence[str]) -> ServerGroup:
        """The group as it is now: with the members placed before, the new ones, and where all of them are."""
        known = self._known.get(_key_of(group))
        if known is not None and known.hosts is not None and known.uuids.isdisjoint(new) and not group.members:
            members, hosts = (*known.members, *new), known.hosts
        else:
            members = tuple(dict.fromkeys((*group.members, *(known.members if known else ()), *new)))
            hosts = self._table.hosts_of(members)
        return group.updated(members, tuple(dict.fromkeys((*group.hosts, *hosts))) if group.hosts else hosts)

    def note(self, group: ServerGroup, new: Sequence[str], hosts: Iterable[str]) -> None:
        """The new members of this group, which `current` gave, went to these hosts."""
        key = _key_of(group)
        if not key:
            return
        known = self._known.get(key)
        if known is not None and known.hosts is not None and len(known.members) + len(new) == len(group.members):
            known.members = group.members
            known.uuids.update(new)
            added = [host for host in dict.fromkeys(hosts) if host not in known.names]
            known.hosts += tuple(added)
            known.names.update(added)
        else:
            self._known[key] = _TrackedGroup(group.members, self._table.hosts_of(group.members))

    def forget(self, group: ServerGroup, uuid: str | None) -> None:
        """A member is gone, or still there while it moves."""
        known = self._known.get(_key_of(group))
        if known is not None:
            known.hosts = None
            if uuid in known.uuids and not self._table.rows_of_instance(uuid):
                known.uuids.discard(uuid)
                known.members = tuple(each for each in known.members if each != uuid)


def _key_of(group: ServerGroup) -> str:
    """What a group is known by; empty where it has neither uuid nor name."""
    return group.uuid or group.name
