# SPDX-License-Identifier: Apache-2.0
"""Remedies for hosts that the prefilter stage rejects: other names in the request, other aggregates of the host."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from roost.hosts import HostView
from roost.hosts.host_changes import label, move_into, move_out_of, name_of
from roost.model.aggregate import Aggregate
from roost.model.remedy import Remedy, RequestChange
from roost.model.request import RequestSpec


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
