# SPDX-License-Identifier: Apache-2.0
"""The filter for extra specs that the metadata of a host's aggregates must satisfy."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from operator import attrgetter

from roost.filters.base import Filter
from roost.filters.extra_specs_ops import match, satisfying_value
from roost.hosts import Hosts, HostView
from roost.hosts.encoded import BoolArray
from roost.hosts.host_changes import label
from roost.model.group import Aggregate, merged_metadata
from roost.model.kinds import shown
from roost.model.remedy import Remedy
from roost.model.request import RequestSpec

EXTRA_SPECS_SCOPE = "aggregate_instance_extra_specs"


class AggregateInstanceExtraSpecsFilter(Filter):
    """Keep only hosts whose aggregate metadata satisfies the flavor's extra specs.

    Considered are extra specs in the scope `aggregate_instance_extra_specs:`, and extra specs without a scope. If a
    key has several values among the host's aggregates, one that satisfies the requirement is enough.
    """

    applies_if = attrgetter("flavor.extra_specs")
    run_filter_once_per_request = True
    reads = frozenset({"aggregates"})

    def requirements(self, spec: RequestSpec) -> Iterator[tuple[str, str]]:
        """(metadata key, requirement) for each extra spec that this filter considers."""
        for key, requirement in spec.flavor.extra_specs.items():
            scope, colon, rest = key.partition(":")
            if not colon:
                yield key, requirement
            elif scope == EXTRA_SPECS_SCOPE:
                yield rest, requirement

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """True for hosts on which each requirement is met by at least one value of its key."""
        wanted = list(self.requirements(spec))
        return hosts.per_value("aggregates", lambda each: self.unmet(each, wanted) is None)

    def unmet(
        self, aggregates: Collection[Aggregate], wanted: list[tuple[str, str]]
    ) -> tuple[str, str, list[str]] | None:
        """The first requirement that is not met, as (key, requirement, values found); None if all are met."""
        metadata = merged_metadata(aggregates) if wanted else {}
        for key, requirement in wanted:
            values = sorted(metadata.get(key, ()))
            if not any(match(value, requirement) for value in values):
                return key, requirement, values
        return None

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """The first requirement that is not met, and the values that the host's aggregates have."""
        found = self.unmet(host.aggregates, list(self.requirements(spec)))
        if found is None:
            return "its aggregates do not satisfy the extra specs"
        key, requirement, values = found
        said = f"its aggregates say {', '.join(values)}" if values else "none of its aggregates has it"
        return f"{key} {shown(requirement)} asked; {said}"

    def remedy(self, host: HostView, spec: RequestSpec) -> Remedy | None:
        """Values that meet the requirements, in the metadata of an aggregate of the host."""
        unmet = [each for each in self.requirements(spec) if self.unmet(host.aggregates, [each])]
        values = {key: satisfying_value(requirement) for key, requirement in unmet}
        if None in values.values():  # no metadata can meet it: without an operand, or with a comma
            return None
        text, changes = label(host, {key: str(value) for key, value in values.items()})
        return Remedy(f"{text}, or ask for a flavor without the extra spec {' and '.join(values)}", changes)
