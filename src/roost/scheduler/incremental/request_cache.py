# SPDX-License-Identifier: Apache-2.0
"""The cache of one pipeline on one table: request families by what they ask for, with an LRU bound."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence

from roost.filters.base import Filter
from roost.hosts import HostTable
from roost.model.group import ServerGroup
from roost.model.request import NO_PARAMS, RequestSpec
from roost.scheduler.incremental.overlay import BOUND_TO_HOSTS
from roost.scheduler.incremental.request_class import RequestClass, RequestFamily, drop_oldest
from roost.scheduler.rules import Rules

MOST_FAMILIES = 32
MOST_SEEN = 1024
"""Families that were seen but not cached."""
MOST_BYTES = 96 << 20
"""For the codes of all families and classes together."""

Distinguish = Callable[[RequestSpec], Hashable]


class RequestCache:
    """Request families by key; one that was not used for long is dropped."""

    def __init__(self, table: HostTable, rules: Rules) -> None:
        self._table, self._rules = table, rules
        self._distinguish = make_distinguish(rules.filters, rules.prefilters.limit_tenants_to_placement_aggregate)
        self._families: OrderedDict[Hashable, RequestFamily] = OrderedDict()
        self._seen: OrderedDict[Hashable, int] = OrderedDict()
        """Family -> how many of its requests got a full scan."""

    def find(self, spec: RequestSpec, scans_before_caching: int = 0) -> RequestClass | None:
        """The class of this request, up to date; None for the first requests of a family, which get a full scan."""
        key = self._key_of(spec)
        family = self._families.get(key)
        if family is None:
            if self._is_to_be_scanned(key, scans_before_caching):
                return None
            family = self._families[key] = RequestFamily(self._table, spec, self._rules)
            drop_oldest(self._families, MOST_FAMILIES)
        else:
            self._families.move_to_end(key)
        before = len(family.classes)
        found = family.find(spec)
        if len(family.classes) > before:
            self._bound_memory()
        return found

    def _is_to_be_scanned(self, key: Hashable, scans_before_caching: int) -> bool:
        scans = self._seen.get(key, 0)
        if scans >= scans_before_caching:
            return False
        self._seen[key] = scans + 1
        drop_oldest(self._seen, MOST_SEEN)
        return True

    def catch_up(self, spec: RequestSpec) -> None:
        """Bring the class of this request up to date, if it is cached."""
        family = self._families.get(self._key_of(spec))
        if family is not None:
            family.catch_up(spec)
            known = family.class_of(spec)
            if known is not None:
                known.catch_up(spec)

    def _bound_memory(self) -> None:
        """A class takes a byte per host, a family two."""
        most = max(8, MOST_BYTES // max(1, len(self._table.names)))
        while len(self._families) > 1 and sum(2 + len(each.classes) for each in self._families.values()) > most:
            self._families.popitem(last=False)

    def forget(self, spec: RequestSpec) -> None:
        """Drop the family of this request: an update of it failed half-way."""
        self._families.pop(self._key_of(spec), None)

    def _key_of(self, spec: RequestSpec) -> Hashable:
        """All that an answer can depend on, except size, uuid and the members of the group, which are tracked."""
        extra_specs, image, group = spec.flavor.extra_specs, spec.image, spec.instance_group
        return (
            tuple(extra_specs.items()) if extra_specs else None,
            None if image is None else (image.properties, image.disk_format, spec.is_bfv),
            spec.availability_zone,
            tuple(spec.scheduler_hints.items()) if spec.scheduler_hints else None,
            None if group is None else _key_of_group(group),
            (spec.ignore_hosts, spec.force_hosts, spec.force_nodes, spec.requested_destination),
            spec.additional_needs if spec.requested_resources or spec.request_level_params is not NO_PARAMS else None,
            None if spec.retry is None else spec.retry.hosts,
            self._distinguish(spec) if self._distinguish else None,
        )


def _key_of_group(group: ServerGroup) -> Hashable:
    """Affinity goes by the group's hosts; all other policies by its members, which are tracked."""
    hosts = group.hosts if group.policy in BOUND_TO_HOSTS else ()
    return group.uuid, group.name, group.policy, group.max_server_per_host, hosts


def is_cacheable(rules: Rules) -> bool:
    """Whether all answers follow from the columns that the rules declare; those of a plugin may not."""
    return rules.are_built_in and not any(weigher.may_fail() for weigher in rules.weighers)


def make_distinguish(filters: Sequence[Filter], by_project: bool) -> Distinguish | None:
    """A function that gives what these filters look at in a request besides what always distinguishes requests.

    None if that is nothing.
    """
    asked = [each.distinguishes for each in filters if type(each).distinguishes is not Filter.distinguishes]
    if by_project:
        asked.append(lambda spec: spec.project_id)
    return (lambda spec: tuple([ask(spec) for ask in asked])) if asked else None
