# SPDX-License-Identifier: Apache-2.0
"""The cloud that a scheduler serves: its replica, who grants claims, what else runs; and replies in nova's forms.

Replies are selections as objects or dicts, and errors that nova's client raises as its own. Beside them go nova's
notifications that a request came in and that it was answered, unversioned and versioned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from roost.best_effort import best_effort
from roost.errors import (
    BadInput,
    ClaimRejected,
    DatabaseError,
    NoReadableCell,
    NoValidHost,
    PlacementError,
    RoostError,
    UnsupportedPolicy,
)
from roost.hosts import HostTable
from roost.hosts.record import default_node_uuid
from roost.messages.context import RequestContext
from roost.messages.dispatcher import UNAVAILABLE, is_expected, nova_failure
from roost.messages.interface import Notifier, Transport
from roost.messages.objects.notifications import legacy_payload, versioned_payload
from roost.messages.objects.selections import (
    ObjectVersions,
    SelectedHost,
    mappings_of,
    selection_to_dict,
    selection_to_object,
)
from roost.model import Decision, RequestSpec, ServerGroup
from roost.model.decision import Candidate
from roost.options.settings import Settings
from roost.records.recorder import DecisionRecorder
from roost.scheduler.claiming import Placement
from roost.scheduler.options import ServiceOptions
from roost.scheduler.replica import HostManager
from roost.scheduler.rounds import Granter

if TYPE_CHECKING:
    from roost.scheduler.manager import SchedulerManager


class BackgroundTask(NamedTuple):
    """Something that is done now and then, in a thread of its own."""

    name: str
    run: Callable[[], object]
    seconds: Callable[[], float]
    """Time between two runs."""
    is_writing: bool = False
    """Whether it writes to the cloud's databases: a scheduler that only watches leaves it out."""


class Cloud(Protocol):
    """What the service of a scheduler needs of its cloud."""

    @property
    def replica(self) -> HostManager:
        """The fleet as this scheduler knows it."""

    @property
    def granter(self) -> Granter:
        """What grants claims on its hosts."""

    @property
    def recorder(self) -> DecisionRecorder | None:
        """Keeps the decisions; None where this cloud has no place for them."""

    def check_databases(self) -> None:
        """Check that the databases with which everything begins can be used; a DatabaseError if not."""

    def open(self) -> None:
        """Open what is needed before the replica is read; RoostError where that cannot be used."""

    def find_group(self, uuid: str) -> ServerGroup | None:
        """A server group by its uuid; None where there is none."""

    def read_request_spec(self, instance_uuid: str) -> Any | None:
        """The RequestSpec object that is stored for an instance, as JSON data; None where this cloud stores none.

        BadInput where it should be there and is not.
        """

    def read_hosts_up(self, topic: str, seconds_until_down: float) -> list[str]:
        """Names of the hosts whose service of a topic is enabled and alive, read now."""

    def older_methods(
        self, manager: SchedulerManager, transport: Transport, notifier: Notifier | None
    ) -> object | None:
        """The methods of messages before 4.0; None where the cloud has no services that send them."""

    def tasks(self) -> Sequence[BackgroundTask]:
        """What has to be done beside requests."""

    def unready(self) -> list[str]:
        """Reasons of the cloud why no request should be sent here now; empty when ready."""

    def check(self, settings: Settings) -> None:
        """Check addresses in new settings, which take effect at the next start; RoostError where one is wrong."""

    def reload(self, settings: Settings) -> None:
        """Go by these settings, which were checked, from now on."""

    def close(self) -> None:
        """Close all connections."""


WhyNowhere = Callable[[NoValidHost], str]
NO_VALID_HOST = "No valid host was found."
ALL_TAKEN = "Others were faster, time and again."
WANTS_SUMMARY = "roost_summary"
"""In a context: whether a failure is to have the summary of the decision; nova's classes know no such argument."""
GIVEN_UP = "The request has waited longer than its caller does."
SCHEDULER_ERROR = "NovaException"
"""nova's class for errors of the scheduler, as opposed to errors in the request."""
NO_PLACEMENT = "Placement cannot be used now; the scheduler's log says more."
NO_DATABASE = "The scheduler cannot use its database now; its log says more."


def as_objects(
    placement: Placement, spec: RequestSpec, default_zone: str, versions: ObjectVersions
) -> list[list[dict[str, Any]]]:
    """Per instance a list of Selection objects: its host, then the alternates."""
    amounts = {name: amount for name, amount in spec.amounts.items() if amount}

    def as_object(candidate: Candidate) -> dict[str, Any]:
        return selection_to_object(_chosen(candidate, placement.table, spec, amounts, default_zone), versions)

    return [
        [as_object(candidate) for candidate in (selection, *selection.alternates)]
        for selection in placement.decision.selections
    ]


def as_dicts(placement: Placement, names_nodes: bool, versions: ObjectVersions) -> list[dict[str, Any]]:
    """Per instance a dict of its host, as in replies before message version 4.5."""
    if not names_nodes:
        return [{"host": each.host, "nodename": None, "limits": None} for each in placement.decision.selections]
    return [selection_to_dict(_bare(each), versions) for each in placement.decision.selections]


def _chosen(
    candidate: Candidate, table: HostTable, spec: RequestSpec, amounts: dict[str, int], default_zone: str
) -> SelectedHost:
    pair = candidate.host, candidate.node
    row = candidate.row if candidate.row >= 0 else table.find_row(pair)
    if row is None:  # a third-party driver named a host that is not in the table
        return _bare(candidate)
    node_uuid, taken = table.uuids.get(row) or default_node_uuid(*pair), candidate.allocation
    return SelectedHost(
        *pair,
        node_uuid,
        cell=str(table.encoded["cell"].at(row)),
        limits=candidate.limits,
        allocations=taken.allocations if taken else {node_uuid: amounts},
        availability_zone=_zone_of(table, row, default_zone),
        mappings=taken.mappings if taken else mappings_of(spec, node_uuid),
    )


def _bare(candidate: Candidate) -> SelectedHost:
    return SelectedHost(
        host=candidate.host,
        node=candidate.node,
        node_uuid=default_node_uuid(candidate.host, candidate.node),
        cell="",
        limits=candidate.limits,
        allocations=None,
        availability_zone=None,
    )


def _zone_of(table: HostTable, row: int, default_zone: str) -> str:
    """The first availability zone among the aggregates of a row; `default_zone` where there is none."""
    for aggregate in table.encoded["aggregates"].at(row):
        zone: str | None = aggregate.metadata.get("availability_zone")
        if zone:
            return zone
    return default_zone


def no_host_reason(error: NoValidHost | ClaimRejected, why_nowhere: WhyNowhere) -> str:
    """The text after "No valid host was found."; a ClaimRejected means that every round lost its hosts to others."""
    return why_nowhere(error) if isinstance(error, NoValidHost) else ALL_TAKEN


@contextmanager
def as_nova_errors(why_nowhere: WhyNowhere, with_summary: bool = False) -> Iterator[None]:
    """Raise Roost's errors as the exceptions that nova's callers know, without their cause, which only the log has.

    `why_nowhere`: gives the reason for a NoValidHost, in nova's words. `with_summary`: add that of the decision, and
    say which failures may be gone later; to nova's own callers all failures of a scheduler have the same code.
    """
    try:
        yield
    except (NoValidHost, ClaimRejected) as error:
        reason = no_host_reason(error, why_nowhere)
        more: dict[str, Any] = {"summary": error.message} if with_summary else {}
        raise nova_failure("NoValidHost", f"{NO_VALID_HOST} {reason}", reason=reason, **more) from None
    except UnsupportedPolicy as error:
        raise nova_failure("UnsupportedPolicyException", str(error), reason=str(error), code=400) from None
    except BadInput as error:
        raise nova_failure("Invalid", str(error), code=400) from None
    except NoReadableCell:  # nova-scheduler leaves each of them out, and has no hosts
        raise nova_failure("NoValidHost", f"{NO_VALID_HOST} {NO_DATABASE}", reason=NO_DATABASE) from None
    except DatabaseError:  # whose text names address and user
        more = {"code": UNAVAILABLE} if with_summary else {}
        raise nova_failure(SCHEDULER_ERROR, NO_DATABASE, **more) from None
    except PlacementError:  # nova-scheduler finds no host then
        raise nova_failure("NoValidHost", f"{NO_VALID_HOST} {NO_PLACEMENT}", reason=NO_PLACEMENT) from None
    except RoostError as error:
        raise nova_failure(SCHEDULER_ERROR, str(error)) from None


def is_answer(error: Exception) -> bool:
    """Whether an exception is an answer to the caller, and no failure of the scheduler."""
    return is_expected(error) and type(error).__name__ != SCHEDULER_ERROR


def decision_facts(decision: Decision) -> dict[str, Any]:
    """Log fields of a decision besides its summary."""
    times = decision.time_us
    facts: dict[str, Any] = {"hosts": decision.hosts, "wanted": decision.wanted}
    facts |= {f"{stage}_us": round(times[stage]) for stage in ("filter", "weigh", "claim", "total") if stage in times}
    return facts


STARTED = "scheduler.select_destinations.start"
ENDED = "scheduler.select_destinations.end"
UNVERSIONED_TOPIC = "notifications"


class RequestNotifications:
    """Sends the enabled notifications, and never raises; payloads are built only for these."""

    def __init__(self, unversioned: Notifier | None = None, versioned: Notifier | None = None) -> None:
        self.unversioned = unversioned if unversioned and unversioned.is_enabled else None
        self._versioned = versioned if versioned and versioned.is_enabled else None

    @classmethod
    def over(cls, transport: Transport, options: ServiceOptions) -> RequestNotifications:
        """Notifications over a transport, as `[notifications] notification_format` says."""
        host, form = options.service_host, options.notification_format
        wants_old, wants_new = form in ("unversioned", "both"), form in ("versioned", "both")
        return cls(
            transport.notifier(f"scheduler.{host}", [UNVERSIONED_TOPIC]) if wants_old else None,
            transport.notifier(f"nova-scheduler:{host}", options.versioned_notifications_topics)
            if wants_new
            else None,
        )

    @property
    def dropped(self) -> int:
        """How many notifications were dropped because the queue was full; both formats share one count."""
        return max((each.dropped for each in (self.unversioned, self._versioned) if each), default=0)

    @best_effort("notifications")
    def started(self, context: RequestContext, spec: RequestSpec) -> None:
        """Notify that hosts are about to be chosen."""
        self._send(context, STARTED, spec)

    @best_effort("notifications")
    def ended(self, context: RequestContext, spec: RequestSpec) -> None:
        """Notify that hosts were chosen; not sent where there was none."""
        self._send(context, ENDED, spec)

    def _send(self, context: RequestContext, event: str, spec: RequestSpec) -> None:
        if self.unversioned:
            self.unversioned.info(context, event, legacy_payload(spec))
        if self._versioned:
            self._versioned.info(context, event, versioned_payload(spec))
