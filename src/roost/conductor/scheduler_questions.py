# SPDX-License-Identifier: Apache-2.0
"""Asks schedulers for hosts. A lost answer does no harm: the same question gets the same hosts.

RemoteNoValidHost, with the decision's summary, means that no host fits; RemoteFailure that the request is wrong, and
RpcError that no scheduler could be asked, however often it was tried.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

import structlog

from roost.clock import Clock
from roost.errors import RemoteFailure, RemoteNoValidHost, RpcError, RpcTimeout, RpcUnreachable
from roost.messages.context import RequestContext
from roost.messages.objects.selections import SelectedHost
from roost.messages.scheduler_client import DestinationPlan, SchedulerClient
from roost.model import RequestSpec
from roost.model.request import Destination, Retry
from roost.records.server import Attempt

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
