# SPDX-License-Identifier: Apache-2.0
"""The prefilter stage: the hosts that a request names or rules out, then what it implies before any filter.

nova's request filters turn the latter into a query to placement: aggregates a request is confined to, traits that
flavor and image imply. Here they are checks of hosts like all others, in nova's order; a rebuild skips them. With
each check comes the remedy for the hosts that it rejects.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from roost.hosts import Hosts, HostTable, HostView
from roost.hosts.encoded import BoolArray
from roost.hosts.host_changes import label, move_into, move_out_of, name_of
from roost.model.group import Aggregate
from roost.model.remedy import Remedy, RequestChange
from roost.model.request import Destination, RequestSpec
from roost.model.resources import (
    accelerator_traits,
    encryption_traits,
    image_metadata_traits,
    image_type_traits,
    packed_ring_traits,
    sound_traits,
    tpm_traits,
)
from roost.options.declare import option
from roost.scheduler.checks import Check, FindRemedy, trait_check

TENANT_KEY = "filter_tenant_id"
_ALWAYS_IMPLIED = {
    "accelerators": accelerator_traits,
    "packed_virtqueue": packed_ring_traits,
    "ephemeral_encryption": encryption_traits,
    "virtio_sound": sound_traits,
    "tpm_secret_security": tpm_traits,
}
"""Name of a request filter that cannot be switched off -> function of a request: the traits that it requires."""
TRAIT_FILTERS = frozenset({"image_type", "image_metadata", *_ALWAYS_IMPLIED})
"""Names of the request filters that require traits."""


@dataclass(frozen=True)
class PrefilterOptions:
    """Which request filters are on: nova's switches, with nova's defaults."""

    decides_placements: ClassVar[bool] = True
    """Its values are part of a snapshot: see `roost.sources.snapshot`."""

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


def prefilter_checks(
    table: HostTable, spec: RequestSpec, options: PrefilterOptions, reads_one_cell: bool = False
) -> Iterator[Check]:
    """All checks of the stage, in order. `reads_one_cell`: see `cell_checks`."""
    if reads_one_cell and spec.requested_destination:
        yield from cell_checks(spec.requested_destination)
    yield from named_host_checks(spec)
    yield from request_filter_checks(spec, table.known_aggregates, options)


def cell_checks(destination: Destination) -> Iterator[Check]:
    """The nova cell that a request must not leave: nova does not even read the hosts of others."""
    if not destination.bound_to_cell:
        return

    def ask(hosts: Hosts) -> BoolArray:
        return hosts.per_value("cell", may_be_in_cell(destination, hosts.table))

    yield _settled_once("cell", ask, f"the request must stay in cell {destination.cell}", cell_remedy, "cell")


def may_be_in_cell(destination: Destination | None, table: HostTable) -> Callable[[str], bool]:
    """A function that tells whether a request for this destination may go to a host of a nova cell.

    Where all hosts are in one cell there is none to leave, whatever name the request has for it.
    """
    names = destination.bound_to_cell if destination else ()
    may_be_anywhere = not names or len(table.encoded["cell"].used()) < 2
    return lambda cell: may_be_anywhere or cell in names


def named_host_checks(spec: RequestSpec) -> Iterator[Check]:
    """The hosts that the request names or rules out. Ignoring comes before forcing: a host that is both is out."""
    destination = spec.requested_destination
    if destination and destination.host:
        host, node = destination.host, destination.node
        yield _by_name(
            "requested_destination",
            lambda table: [row for row in table.rows_of_host(host) if node in (None, "", table.names[row][1])],
            f"the request is for {host}",
            destination_remedy,
        )
    if spec.ignore_hosts:
        ignored = spec.ignore_hosts
        reason = "the request says to ignore this host"
        remedy = partial(ignored_host_remedy, spec=spec)
        find = partial(_rows_of_hosts, names=ignored)
        yield _by_name("ignore_hosts", find, reason, remedy, stays=False)
    if spec.force_hosts:
        forced = spec.force_hosts
        reason = f"the request is forced to {', '.join(forced)}"
        remedy = partial(forced_host_remedy, spec=spec)
        yield _by_name("force_hosts", partial(_rows_of_hosts, names=forced), reason, remedy)
    if spec.force_nodes:
        nodes = set(spec.force_nodes)
        yield _by_name(
            "force_nodes",
            lambda table: [row for row, (_, node) in enumerate(table.names) if node in nodes],
            f"the request is forced to node {', '.join(spec.force_nodes)}",
            partial(forced_node_remedy, spec=spec),
        )


def _rows_of_hosts(table: HostTable, names: Collection[str]) -> list[int]:
    return table.rows_of_hosts_ignoring_case(names)


def _by_name(
    name: str, find: Callable[[HostTable], list[int]], reason: str, remedy: FindRemedy, stays: bool = True
) -> Check:
    """Whether a host is among the rows that `find` gives; `stays`: these pass, False: all others do."""

    def ask(hosts: Hosts) -> BoolArray:
        mask = np.full(len(hosts.table.names), not stays, dtype=np.bool_)
        mask[find(hosts.table)] = stays
        return mask[hosts.rows]

    return _settled_once(name, ask, reason, remedy, "name")


def _settled_once(
    name: str,
    ask: Callable[[Hosts], BoolArray],
    reason: str | Callable[[HostView], str],
    remedy: FindRemedy,
    column: str,
) -> Check:
    """A check of this stage that reads one column."""
    return Check(
        "prefilter",
        name,
        ask,
        (lambda host: reason) if isinstance(reason, str) else reason,
        remedy,
        reads=lambda: frozenset({column}),
        is_settled_once=True,
    )


def request_filter_checks(
    spec: RequestSpec, known: Collection[Aggregate], options: PrefilterOptions
) -> Iterator[Check]:
    """Nova's request filters. `known`: all aggregates there are, also those without hosts."""
    if spec.is_rebuild:
        return
    if spec.requested_destination or spec.requested_resources:
        yield from _requested_aggregates_checks(spec, known)
    # Placement, if it was asked for candidates, was asked for hosts with these traits.
    traits = implied_traits(spec, options) if spec.candidates is None else {}
    if options.limit_tenants_to_placement_aggregate:
        yield from _tenant_check(spec, known, options.placement_aggregate_required_for_tenants)
    if options.query_placement_for_availability_zone and spec.availability_zone:
        yield from _zone_check(spec.availability_zone, known)
    yield from _trait_checks(spec, traits, "image_type")
    if options.enable_isolated_aggregate_filtering:
        yield from _isolation_check(spec, known)
    yield from _trait_checks(spec, traits, "image_metadata", *_ALWAYS_IMPLIED)


def _trait_checks(spec: RequestSpec, traits: Mapping[str, frozenset[str]], *names: str) -> Iterator[Check]:
    """The checks of the named request filters that require traits."""
    for name in names:
        if name in traits:
            yield trait_check("prefilter", name, spec, traits[name])


def implied_traits(spec: RequestSpec, options: PrefilterOptions) -> dict[str, frozenset[str]]:
    """Name of a request filter -> traits that it requires of the host; RuleError for a wrong setting."""
    found: dict[str, frozenset[str]] = {}
    if options.query_placement_for_image_type_support:
        found["image_type"] = image_type_traits(spec)
    if options.image_metadata_prefilter:
        found["image_metadata"] = image_metadata_traits(spec)
    if spec.image or spec.flavor.extra_specs:  # what else could imply a trait
        found |= {name: traits_of(spec) for name, traits_of in _ALWAYS_IMPLIED.items()}
    return {name: traits for name, traits in found.items() if traits}


def _requested_aggregates_checks(spec: RequestSpec, known: Collection[Aggregate]) -> Iterator[Check]:
    """The aggregates that the request names by uuid: a host is in one of each set, and in no forbidden one."""
    destination = spec.requested_destination
    choices = list(destination.aggregate_choices if destination else ())
    forbidden = set(destination.forbidden_aggregates if destination else ())
    for group in spec.requested_resources if spec.candidates is None else ():
        choices += map(frozenset, group.aggregates)
        forbidden |= group.forbidden_aggregates
    if choices:

        def is_inside(aggregates: Collection[Aggregate]) -> bool:
            uuids = {each.uuid for each in aggregates}
            return all(not uuids.isdisjoint(choice) for choice in choices)

        reason = "the request is for hosts in other aggregates"
        remedy = partial(requested_aggregates_remedy, choices=choices, known=known)
        yield _by_aggregates("requested_aggregates", is_inside, reason, remedy)
    if forbidden:

        def is_outside(aggregates: Collection[Aggregate]) -> bool:
            return not any(each.uuid in forbidden for each in aggregates)

        yield _by_aggregates(
            "forbidden_aggregates",
            is_outside,
            partial(_forbidden_by, forbidden=forbidden),
            partial(forbidden_aggregates_remedy, forbidden=forbidden),
        )


def _forbidden_by(host: HostView, forbidden: Collection[str]) -> str:
    names = [each.name for each in host.aggregates if each.uuid in forbidden]
    return f"the request forbids its aggregate {', '.join(names)}"


def _tenant_check(spec: RequestSpec, known: Collection[Aggregate], is_required: bool) -> Iterator[Check]:
    wanted = [each for each in known if _names_tenant(each, spec.project_id)]
    remedy = partial(tenant_remedy, wanted=wanted, project=spec.project_id, key=TENANT_KEY)
    if wanted:
        confined = f"project {spec.project_id} is confined to {', '.join(each.name for each in wanted)}"
        yield _inside("tenant_aggregate", wanted, confined, remedy)
    elif is_required:
        yield _inside("tenant_aggregate", [], f"no aggregate is for project {spec.project_id}", remedy)


def _names_tenant(aggregate: Aggregate, project: str | None) -> bool:
    return any(key.startswith(TENANT_KEY) and value == project for key, value in aggregate.metadata.items())


def _zone_check(zone: str, known: Collection[Aggregate]) -> Iterator[Check]:
    """A zone that no aggregate has confines nothing here: AvailabilityZoneFilter decides about it."""
    wanted = [each for each in known if each.availability_zone == zone]
    if wanted:
        yield _inside(
            "availability_zone",
            wanted,
            lambda host: f"zone {zone} asked; the host is in {', '.join(_zones_of(host)) or 'none'}",
            lambda host: zone_remedy(_zones_of(host)),
        )


def _zones_of(host: HostView) -> list[str]:
    return sorted({each.availability_zone for each in host.aggregates if each.availability_zone})


def _isolation_check(spec: RequestSpec, known: Collection[Aggregate]) -> Iterator[Check]:
    required = spec.marked_traits
    forbidden = {each for each in known if _isolating_traits(each) - required}
    if not forbidden:
        return

    def is_outside(aggregates: Collection[Aggregate]) -> bool:
        return not any(each in forbidden for each in aggregates)

    yield _by_aggregates(
        "isolated_aggregates",
        is_outside,
        lambda host: f"its aggregates are for requests of {', '.join(_isolated_by(host.aggregates, required))}",
        lambda host: isolation_remedy(host, forbidden, _isolated_by(host.aggregates, required)),
    )


def _isolating_traits(aggregate: Aggregate) -> set[str]:
    """The traits that a request must require to be placed in the aggregate."""
    entries = aggregate.metadata.items()
    return {key.removeprefix("trait:") for key, value in entries if key.startswith("trait:") and value == "required"}


def _isolated_by(aggregates: Collection[Aggregate], required: frozenset[str]) -> list[str]:
    """The traits that a request must require to be placed in these aggregates, and does not."""
    return sorted({trait for each in aggregates for trait in _isolating_traits(each) - required})


def _inside(
    name: str, wanted: Collection[Aggregate], reason: str | Callable[[HostView], str], remedy: FindRemedy
) -> Check:
    """Whether a host is in one of the wanted aggregates."""
    chosen = set(wanted)
    return _by_aggregates(name, lambda aggregates: any(each in chosen for each in aggregates), reason, remedy)


def _by_aggregates(
    name: str,
    passes: Callable[[Collection[Aggregate]], bool],
    reason: str | Callable[[HostView], str],
    remedy: FindRemedy,
) -> Check:
    """A check of the aggregates that a host is in, asked once per distinct set of them."""
    return _settled_once(name, lambda hosts: hosts.per_value("aggregates", passes), reason, remedy, "aggregates")


def cell_remedy(host: HostView) -> Remedy:
    """A request that may leave its nova cell."""
    text = f"allow a move to another cell: {name_of(host)} is in cell {host.cell}"
    return Remedy(text, (RequestChange("requested_destination.allow_cross_cell_move", True),))


def destination_remedy(host: HostView) -> Remedy:
    """A request for this host, or for any."""
    names = ("host", "node")
    changes = tuple(RequestChange(f"requested_destination.{name}", None) for name in names)
    return Remedy(f"ask for host {host.host}, or for no particular host", changes)


def ignored_host_remedy(host: HostView, spec: RequestSpec) -> Remedy:
    """A request that does not ignore the host."""
    left = [each for each in spec.ignore_hosts or () if each.lower() != host.host.lower()]
    return Remedy(f"take {host.host} out of ignore_hosts", (RequestChange("ignore_hosts", left or None),))


def forced_host_remedy(host: HostView, spec: RequestSpec) -> Remedy:
    """A request that is forced to this host too."""
    hosts = [*(spec.force_hosts or ()), host.host]
    return Remedy(f"add {host.host} to force_hosts, or force no host", (RequestChange("force_hosts", hosts),))


def forced_node_remedy(host: HostView, spec: RequestSpec) -> Remedy:
    """A request that is forced to this node too."""
    nodes = [*(spec.force_nodes or ()), host.nodename]
    return Remedy(f"add {host.nodename} to force_nodes, or force no node", (RequestChange("force_nodes", nodes),))


def requested_aggregates_remedy(
    host: HostView, choices: Sequence[frozenset[str]], known: Collection[Aggregate]
) -> Remedy | None:
    """The host in one aggregate of each choice; None where no aggregate has one of the uuids."""
    own = {each.uuid for each in host.aggregates}
    missing = [choice for choice in choices if own.isdisjoint(choice)]
    named = [next((each.name for each in known if each.uuid in choice), None) for choice in missing]
    if None in named:
        return None
    text, change = move_into(host, [each for each in named if each])
    return Remedy(f"{text}, or ask for hosts in other aggregates", (change,))


def forbidden_aggregates_remedy(host: HostView, forbidden: Collection[str]) -> Remedy:
    """The host outside the aggregates that the request forbids."""
    text, change = move_out_of(host, [each.name for each in host.aggregates if each.uuid in forbidden])
    return Remedy(f"{text}, or do not forbid them", (change,))


def tenant_remedy(host: HostView, wanted: Sequence[Aggregate], project: str | None, key: str) -> Remedy | None:
    """The host in an aggregate for the project; None for a request of no project, which none can name."""
    if wanted:
        text, change = move_into(host, [wanted[0].name])
        return Remedy(text, (change,))
    if not project:
        return None
    text, changes = label(host, {f"{key}_{project}": project})
    return Remedy(text, changes)


def zone_remedy(zones: Sequence[str]) -> Remedy:
    """The zone of the host, or none."""
    zone = zones[0] if zones else None
    text = f"ask for zone {zone}, or for no zone" if zone else "ask for no zone"
    return Remedy(text, (RequestChange("availability_zone", zone),))


def isolation_remedy(host: HostView, isolated: Collection[Aggregate], traits: Sequence[str]) -> Remedy:
    """The host outside the isolated aggregates that the request does not have the traits for."""
    text, change = move_out_of(host, [each.name for each in host.aggregates if each in isolated])
    asked = " and ".join(f"trait:{each}=required" for each in traits)
    return Remedy(f"ask for a flavor with {asked}, or {text}", (change,))
