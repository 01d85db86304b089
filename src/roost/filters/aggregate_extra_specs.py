# SPDX-License-Identifier: Apache-2.0
"""Extra specs that the host's aggregates must satisfy."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from roost.filters.base import Filter
from roost.filters.extra_specs_ops import match
from roost.hosts import Hosts, HostView
from roost.hosts.arrays import BoolArray
from roost.model.aggregate import Aggregate, merged_metadata
from roost.model.request import RequestSpec
from roost.validation.display import shown

SCOPE = "aggregate_instance_extra_specs"


class AggregateInstanceExtraSpecsFilter(Filter):
    """Keep only hosts whose aggregates satisfy the flavor's extra specs.

    Extra specs in the scope `aggregate_instance_extra_specs:` count, and those without any scope; one of several
    values is enough.
    """

    run_filter_once_per_request = True
    reads = frozenset({"aggregates"})

    def applies_to(self, spec: RequestSpec) -> bool:
        """The flavor asks for something."""
        return bool(spec.flavor.extra_specs)

    def requirements(self, spec: RequestSpec) -> Iterator[tuple[str, str]]:
        """Metadata key and what is required of it."""
        for key, requirement in spec.flavor.extra_specs.items():
            scope, colon, rest = key.partition(":")
            if not colon:
                yield key, requirement
            elif scope == SCOPE:
                yield rest, requirement

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """Every requirement is met by some value."""
        wanted = list(self.requirements(spec))
        return hosts.per_value("aggregates", lambda each: self.unmet(each, wanted) is None)

    def unmet(
        self, aggregates: Collection[Aggregate], wanted: list[tuple[str, str]]
    ) -> tuple[str, str, list[str]] | None:
        """The first requirement that is not met: key, requirement, the values there are."""
        metadata = merged_metadata(aggregates) if wanted else {}
        for key, requirement in wanted:
            values = sorted(metadata.get(key, ()))
            if not any(match(value, requirement) for value in values):
                return key, requirement, values
        return None

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """Which requirement, and what the aggregates say."""
        found = self.unmet(host.aggregates, list(self.requirements(spec)))
        if found is None:
            return "its aggregates do not satisfy the extra specs"
        key, requirement, values = found
        said = f"its aggregates say {', '.join(values)}" if values else "none of its aggregates has it"
        return f"{key} {shown(requirement)} asked; {said}"
