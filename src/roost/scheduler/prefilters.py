# SPDX-License-Identifier: Apache-2.0
"""Conditions that follow from the request before any filter: aggregates it is confined to, traits it implies.

nova turns these into its query to placement; here they are questions to the hosts like all others. They are asked
in nova's order, of new instances and moves alike, but not of a rebuild.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial

from roost.hosts import Hosts, HostView, capacity
from roost.hosts.arrays import BoolArray
from roost.model.aggregate import Aggregate
from roost.model.implied_traits import (
    accelerator_traits,
    encryption_traits,
    image_metadata_traits,
    image_type_traits,
    packed_ring_traits,
    sound_traits,
    tpm_traits,
)
from roost.model.request import RequestSpec
from roost.options import option
from roost.scheduler.checks import Check

TENANT_KEY = "filter_tenant_id"
_AGGREGATES = frozenset({"aggregates"})


@dataclass(frozen=True)
class PrefilterOptions:
    """Which conditions are on; nova's switches, with nova's defaults."""

    limit_tenants_to_placement_aggregate: bool = option(
        False, group="scheduler", help="confine a project to the aggregates that name it under filter_tenant_id..."
    )
    placement_aggregate_required_for_tenants: bool = option(
        False, group="scheduler", help="refuse projects that no aggregate names"
    )
    query_placement_for_availability_zone: bool = option(
        True, group="scheduler", help="confine a request to the aggregates of its availability zone"
    )
    query_placement_for_image_type_support: bool = option(
        False, group="scheduler", help="ask for hosts with the trait of the image's disk format"
    )
    enable_isolated_aggregate_filtering: bool = option(
        False, group="scheduler", help="keep requests off aggregates with a trait:... they do not ask for"
    )
    image_metadata_prefilter: bool = option(
        False, group="scheduler", help="ask for hosts with the traits that the image's properties imply"
    )


def request_checks(spec: RequestSpec, known: Collection[Aggregate], options: PrefilterOptions) -> Iterator[Check]:
    """The conditions of this request. `known`: all aggregates there are, also those without hosts."""
    if spec.is_rebuild:
        return
    yield from _requested_aggregates_checks(spec)
    if options.limit_tenants_to_placement_aggregate:
        yield from _tenant_check(spec, known, options.placement_aggregate_required_for_tenants)
    if options.query_placement_for_availability_zone and spec.availability_zone:
        yield from _zone_check(spec.availability_zone, known)
    if options.query_placement_for_image_type_support:
        yield from _trait_check("image_type", image_type_traits(spec))
    if options.enable_isolated_aggregate_filtering:
        yield from _isolation_check(spec, known)
    if options.image_metadata_prefilter:
        yield from _trait_check("image_metadata", image_metadata_traits(spec))
    yield from _trait_check("accelerators", accelerator_traits(spec))
    yield from _trait_check("packed_virtqueue", packed_ring_traits(spec))
    yield from _trait_check("ephemeral_encryption", encryption_traits(spec))
    yield from _trait_check("virtio_sound", sound_traits(spec))
    yield from _trait_check("tpm_secret_security", tpm_traits(spec))


def _requested_aggregates_checks(spec: RequestSpec) -> Iterator[Check]:
    """The aggregates that the caller names by uuid: in one of each set, and in none of the others."""
    destination = spec.requested_destination
    if not destination and not spec.requested_resources:
        return
    choices = list(destination.aggregate_choices if destination else ())
    forbidden = set(destination.forbidden_aggregates if destination else ())
    for group in spec.requested_resources:
        choices += map(frozenset, group.aggregates)
        forbidden |= group.forbidden_aggregates
    if choices:

        def is_inside(aggregates: Collection[Aggregate]) -> bool:
            uuids = {each.uuid for each in aggregates}
            return all(not uuids.isdisjoint(choice) for choice in choices)

        reason = "the request is for hosts in other aggregates"
        yield _by_aggregates("requested_aggregates", is_inside, lambda host: reason)
    if forbidden:

        def is_outside(aggregates: Collection[Aggregate]) -> bool:
            return not any(each.uuid in forbidden for each in aggregates)

        yield _by_aggregates("forbidden_aggregates", is_outside, lambda host: _forbidden_by(host, forbidden))


def _forbidden_by(host: HostView, forbidden: Collection[str]) -> str:
    names = [each.name for each in host.aggregates if each.uuid in forbidden]
    return f"the request forbids its aggregate {', '.join(names)}"


def _tenant_check(spec: RequestSpec, known: Collection[Aggregate], is_required: bool) -> Iterator[Check]:
    wanted = [each for each in known if _names_tenant(each, spec.project_id)]
    if wanted:
        confined = f"project {spec.project_id} is confined to {', '.join(each.name for each in wanted)}"
        yield _inside("tenant_aggregate", wanted, lambda host: confined)
    elif is_required:
        yield _inside("tenant_aggregate", [], lambda host: f"no aggregate is for project {spec.project_id}")


def _names_tenant(aggregate: Aggregate, project: str | None) -> bool:
    return any(key.startswith(TENANT_KEY) and value == project for key, value in aggregate.metadata.items())


def _zone_check(zone: str, known: Collection[Aggregate]) -> Iterator[Check]:
    """A zone that no aggregate bears confines nothing here: that is left to AvailabilityZoneFilter."""
    wanted = [each for each in known if each.availability_zone == zone]
    if wanted:
        yield _inside("availability_zone", wanted, lambda host: f"zone {zone} asked; the host is {_where(host)}")


def _where(host: HostView) -> str:
    zones = sorted({each.availability_zone for each in host.aggregates if each.availability_zone})
    return f"in {', '.join(zones)}" if zones else "in none"


def _isolation_check(spec: RequestSpec, known: Collection[Aggregate]) -> Iterator[Check]:
    required = spec.marked_traits
    forbidden = {each for each in known if _isolating_traits(each) - required}
    if not forbidden:
        return

    def is_outside(aggregates: Collection[Aggregate]) -> bool:
        return not any(each in forbidden for each in aggregates)

    yield _by_aggregates("isolated_aggregates", is_outside, lambda host: _isolated_by(host.aggregates, required))


def _isolating_traits(aggregate: Aggregate) -> set[str]:
    """The traits that a request must ask for to get in."""
    entries = aggregate.metadata.items()
    return {key.removeprefix("trait:") for key, value in entries if key.startswith("trait:") and value == "required"}


def _isolated_by(aggregates: Collection[Aggregate], required: frozenset[str]) -> str:
    missing = sorted({trait for each in aggregates for trait in _isolating_traits(each) - required})
    return f"its aggregates are for requests of {', '.join(missing)}"


def _inside(name: str, wanted: Collection[Aggregate], reason: Callable[[HostView], str]) -> Check:
    chosen = set(wanted)
    return _by_aggregates(name, lambda aggregates: any(each in chosen for each in aggregates), reason)


def _by_aggregates(
    name: str, passes: Callable[[Collection[Aggregate]], bool], reason: Callable[[HostView], str]
) -> Check:
    def ask(hosts: Hosts) -> BoolArray:
        return hosts.per_value("aggregates", passes)

    return Check("prefilter", name, ask, reason, reads=_AGGREGATES, is_settled_once=True)


def _trait_check(name: str, required: frozenset[str]) -> Iterator[Check]:
    if required:
        nothing: frozenset[str] = frozenset()
        yield Check(
            "prefilter",
            name,
            partial(capacity.has_traits, required=required, forbidden=nothing),
            partial(capacity.why_not_traits, required=required, forbidden=nothing),
            reads=frozenset({"traits"}),
            is_settled_once=True,
        )
