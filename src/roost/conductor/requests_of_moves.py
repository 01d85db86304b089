# SPDX-License-Identifier: Apache-2.0
"""What each operation on a placed server asks of the scheduler: one function per operation. Pure.

| operation | size | ignore_hosts | destination | forced | retry data |
| --- | --- | --- | --- | --- | --- |
| cold migration | present | source | named host | - | failed hosts; none with a named host |
| resize | new | source, unless it may stay there | - | - | failed hosts |
| live migration | present | source and hosts that failed the check | named host | named host, if forced | - |
| evacuation | present | old host | named host | named host, if forced | - |
| rebuild with another image | present | - | - | present host and node, as a check | - |
| unshelve | present | failed hosts | named host | - | failed hosts |

In all of them, hosts that the boot request was forced to or named are reset, and the server group is read anew by the
scheduler; the availability zone that the boot request named stays. A forced host skips all filters, and is claimed as
any other. All hosts of a database are in one cell, so no cell is named.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from roost.model import Flavor, Image, RequestSpec
from roost.model.request import Destination, Retry

CHECK_TYPE, REBUILD_CHECK = "_nova_check_type", "rebuild"
"""Hint that makes a request a check of the host where the server is: filters run, and nothing is claimed."""

Pair = tuple[str, str]
"""Host and node."""


class NamedHost(NamedTuple):
    """A host that the caller names for a move, and its node; forced: filters are skipped."""

    host: str
    node: str | None = None
    is_forced: bool = False


def request_for_cold_migration(
    spec: RequestSpec, source: str, named: NamedHost | None = None, failed: Sequence[Pair] = ()
) -> RequestSpec:
    """The request that moves a server off its host; a named host is tried once, so it has no retry data."""
    asked = _without_destination(spec).changed(ignore_hosts=(source,))
    return _named(asked, named) if named else with_failed_hosts(asked, failed)


def request_for_resize(
    spec: RequestSpec, flavor: Flavor, source: str, may_stay: bool, failed: Sequence[Pair] = ()
) -> RequestSpec:
    """The request for another size; `may_stay`: on the same host, too. NUMA cells and devices are derived anew."""
    asked = _without_destination(spec).changed(flavor=flavor, numa_topology=None, pci_requests=())
    return with_failed_hosts(asked.changed(ignore_hosts=None if may_stay else (source,)), failed)


def request_for_live_migration(
    spec: RequestSpec, attempted: Sequence[str], named: NamedHost | None = None
) -> RequestSpec:
    """The request that moves a running server; `attempted`: its host, then those that failed the check."""
    return _named(_without_destination(spec).changed(ignore_hosts=tuple(attempted)), named)


def request_for_evacuation(spec: RequestSpec, source: str, named: NamedHost | None = None) -> RequestSpec:
    """The request that replaces a server of a dead host."""
    return _named(_without_destination(spec).changed(ignore_hosts=(source,)), named)


def request_for_rebuild(spec: RequestSpec, image: Image | None, host: str, node: str) -> RequestSpec:
    """The check whether another image may run where the server is: filters run, nothing is claimed."""
    hints = {**spec.scheduler_hints, CHECK_TYPE: (REBUILD_CHECK,)}
    asked = _without_destination(spec).changed(image=image, scheduler_hints=hints)
    return asked.changed(force_hosts=(host,), force_nodes=(node,))


def request_for_unshelving(
    spec: RequestSpec, named: NamedHost | None = None, zone: str | None = None, failed: Sequence[Pair] = ()
) -> RequestSpec:
    """The request for a host of a shelved server; `zone`: instead of the availability zone that it has."""
    asked = _without_destination(spec).changed(ignore_hosts=tuple(host for host, _ in failed) or None)
    if zone is not None:
        asked = asked.changed(availability_zone=zone)
    return with_failed_hosts(_named(asked, named), failed)


def with_failed_hosts(spec: RequestSpec, failed: Sequence[Pair]) -> RequestSpec:
    """The request after failures on these hosts: the scheduler gives back what it claimed there."""
    return spec.changed(retry=Retry(len(failed) + 1, tuple(failed)))


def _without_destination(spec: RequestSpec) -> RequestSpec:
    """The request of the boot, for one server, without the hosts and the retries that it named."""
    group = spec.instance_group
    return spec.changed(
        num_instances=1,
        ignore_hosts=None,
        force_hosts=None,
        force_nodes=None,
        requested_destination=None,
        retry=None,
        limits=None,
        instance_group=group.updated((), ()) if group else None,
    )


def _named(spec: RequestSpec, named: NamedHost | None) -> RequestSpec:
    if named is None:
        return spec
    asked = spec.changed(requested_destination=Destination(host=named.host, node=named.node))
    return asked.changed(force_hosts=(named.host,)) if named.is_forced else asked
