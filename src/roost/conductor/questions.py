# SPDX-License-Identifier: Apache-2.0
"""What each operation on a placed server asks of the scheduler, and how a scheduler is asked.

One pure function per operation makes the request:

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

`SchedulerQuestions` asks. A lost answer does no harm: the same question gets the same hosts. RemoteNoValidHost, with
the decision's summary, means that no host fits; RemoteFailure that the request is wrong, and RpcError that no
scheduler could be asked, however often it was tried.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import structlog

from roost.clock import Clock
from roost.errors import RemoteFailure, RemoteNoValidHost, RpcError, RpcTimeout, RpcUnreachable
from roost.messages.context import RequestContext
from roost.messages.objects.selections import SelectedHost
from roost.messages.scheduler_client import DestinationPlan, SchedulerClient
from roost.model import Flavor, Image, RequestSpec
from roost.model.request import Destination, Retry
from roost.records.server import Attempt

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


LOG = structlog.get_logger(__name__)
MOST_TRIES = 6
"""How often a question is asked; with the backoff, some 15 seconds beyond the time until each counts as lost."""
FIRST_BACKOFF_SECONDS, LONGEST_BACKOFF_SECONDS = 0.25, 8.0
_OUT_OF_ORDER = "NovaException"
"""Class of a scheduler's errors that are not about the request: its database is away, for one."""
Result = TypeVar("Result")


class SchedulerQuestions:
    """Questions to schedulers, each repeated while none answers. Thread-safe."""

    def __init__(self, client: SchedulerClient, clock: Clock, randomness: random.Random) -> None:
        self._client, self._clock, self._random = client, clock, randomness

    def select(
        self, context: RequestContext, spec: RequestSpec, uuids: Sequence[str], with_alternates: bool = True
    ) -> list[list[SelectedHost]]:
        """Hosts for all instances, claimed: per instance its host, then the alternates. All or none."""
        asking = with_summary(context)
        spec = spec.changed(num_instances=len(uuids))
        return self._repeated(
            lambda: self._client.select_destinations(asking, spec, list(uuids), True, with_alternates)
        )

    def select_one(
        self, context: RequestContext, spec: RequestSpec, uuid: str, with_alternates: bool = True
    ) -> list[SelectedHost]:
        """A host for one instance, claimed, then the alternates."""
        return self.select(context, spec.for_instance(uuid), [uuid], with_alternates)[0]

    def claim_alternate(
        self, context: RequestContext, spec: RequestSpec, uuid: str, alternate: SelectedHost
    ) -> SelectedHost | None:
        """Claim exactly this host for an instance; None if it does not fit there any more."""
        destination = Destination(host=alternate.host, node=alternate.node)
        named = spec.changed(requested_destination=destination)
        try:
            return self.select_one(context, named, uuid, with_alternates=False)[0]
        except RemoteNoValidHost as error:
            LOG.info("alternate refused", host=alternate.host, server=uuid, reason=error.summary or error.message)
            return None

    def plan(self, context: RequestContext, spec: RequestSpec, uuids: Sequence[str]) -> DestinationPlan:
        """The hosts that `select` would give, and nothing is claimed."""
        spec = spec.changed(num_instances=len(uuids))
        return self._repeated(lambda: self._client.plan_destinations(with_summary(context), spec, list(uuids)))

    def _repeated(self, ask: Callable[[], Result]) -> Result:
        """What `ask` returns; repeated with backoff while no scheduler answers, or one is out of order."""
        for attempt in range(MOST_TRIES):
            try:
                return ask()
            except (RpcTimeout, RpcUnreachable, RemoteFailure) as error:
                is_answer = isinstance(error, RemoteFailure) and error.name != _OUT_OF_ORDER
                if is_answer or attempt == MOST_TRIES - 1:
                    raise
                LOG.warning("no scheduler answers, asked again", reason=str(error))
            longest = min(FIRST_BACKOFF_SECONDS * 2**attempt, LONGEST_BACKOFF_SECONDS)
            self._clock.sleep(self._random.uniform(longest / 2, longest))
        raise RpcError("no scheduler answers")  # not reached: the last try raises


def with_summary(context: RequestContext) -> RequestContext:
    """A context that asks the scheduler for the decision's summary with a refusal."""
    values = {**context.values, "roost_summary": True}
    return RequestContext(context.request_id, context.user_id, context.project_id, context.is_admin, values)


def without_failed(spec: RequestSpec, attempts: Sequence[Attempt]) -> RequestSpec:
    """The request with its failed attempts: their hosts are left out."""
    if not attempts:
        return spec
    retry = Retry(len(attempts), tuple((each.host, each.node) for each in attempts))
    ignored = dict.fromkeys((*(spec.ignore_hosts or ()), *(each.host for each in attempts)))
    return spec.changed(retry=retry, ignore_hosts=tuple(ignored))
