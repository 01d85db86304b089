# SPDX-License-Identifier: Apache-2.0
"""The janitor: finishes or gives up what a process that died, or a message that was lost, left behind.

`Janitor` goes on with tasks of servers that have stalled. `GuestRemovalNotices` reminds agents of guests that servers
left behind on their hosts, until they acknowledge; the process that took the step has sent the first notice.

Every conductor does all of it. Two that find the same server do no harm: its generation lets one of them win, and the
record of a guest's removal lets one of them send each notice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta

import structlog
from sqlalchemy import Engine

from roost.clock import Clock
from roost.conductor.options import ConductorOptions
from roost.conductor.parts import ConductorParts, context_of, with_attempt
from roost.errors import BrokerUnreachable, RoostError, RpcError, ServerChanged
from roost.ledger.audit import find_abandoned, heal
from roost.ledger.ledger import Ledger
from roost.messages.context import RequestContext
from roost.records.guest_removals import FIRST_WAIT_SECONDS, GuestRemoval
from roost.records.server import DELETING, POWERING_OFF, POWERING_ON, SCHEDULING, SPAWNING, Server
from roost.records.server_steps import next_work
from roost.services.metrics import Metrics

LOG = structlog.get_logger(__name__)


Outcome = Callable[[Server, str], None]
"""What is done for a server whose next host is down, and why it is done."""
SENT_AGAIN = "sent_again"


class Janitor:
    """Goes on with tasks of servers that have stalled."""

    def __init__(
        self,
        parts: ConductorParts,
        outcomes: Mapping[str, Outcome],
        options: ConductorOptions,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        """`outcomes`: task_state -> what is done if the host that has to go on is down."""
        self._parts, self._options, self._clock, self._metrics = parts, options, clock, metrics
        self._outcomes = {SCHEDULING: self.reschedule_build, SPAWNING: self.reschedule_build, **outcomes}
        self._sent: dict[tuple[str, int], float] = {}
        """Server, or the first of its batch, and generation -> when it was sent again, by the monotonic clock."""

    def run(self) -> None:
        """Look at all stalled tasks once. One that fails does not keep the others from their turn."""
        stalled = self._parts.store.list_unfinished(self._options.stalled_task_timeout)
        keys = set(map(_message_key, stalled))
        self._sent = {key: moment for key, moment in self._sent.items() if key in keys}
        hosts_up: dict[str, bool] = {}
        for server in stalled:
            try:
                self._look_at(server, hosts_up)
            except ServerChanged:
                LOG.debug("goes on by itself", server=server.uuid)
            except RoostError as error:
                LOG.warning("stalled task is left for now", server=server.uuid, reason=str(error))
            except Exception:
                LOG.exception("stalled task is left for now", server=server.uuid)

    def _look_at(self, server: Server, hosts_up: dict[str, bool]) -> None:
        due = next_work(server)
        if due is None:
            self._report_unknown(server)
            return
        if due.host is not None:
            if due.host not in hosts_up:
                hosts_up[due.host] = self._parts.hosts.is_up(due.host)
            if not hosts_up[due.host]:
                self._without_host(server, due.host, str(due.work.if_down))
                return
        self._send_again(server, due.host, due.work.method)

    def _report_unknown(self, server: Server) -> None:
        """Report a task that no table lists, once: an import brought it, or a newer version began it."""
        key = server.uuid, server.generation
        if key not in self._sent:
            self._sent[key] = self._clock.monotonic()
            facts = {"task": server.task_state, "remedy": "end it where it was begun"}
            LOG.warning("stalled task: not one that is known, left alone", server=server.uuid, **facts)

    def _without_host(self, server: Server, host: str, outcome: str) -> None:
        """Do what the table of tasks says for a host that is down."""
        self._outcomes[str(server.task_state)](server, f"host {host} is down")
        self._metrics.stalled_task(outcome)
        facts = {"task": server.task_state, "host": host, "outcome": outcome}
        LOG.warning("stalled task: its host is down", server=server.uuid, **facts)

    def _send_again(self, server: Server, host: str | None, method: str) -> None:
        """Send the message for the next step once more, at most once per timeout: its receiver may be at it."""
        key, now = _message_key(server), self._clock.monotonic()
        if now - self._sent.get(key, -float("inf")) < self._options.stalled_task_timeout:
            return
        self._sent[key] = now
        self._parts.messages.wake(context_of(server), host, method, server.uuid, server.generation)
        self._metrics.stalled_task(SENT_AGAIN)
        facts = {"task": server.task_state, "receiver": host or "a conductor", "method": method}
        LOG.info("stalled task: message sent again", server=server.uuid, **facts)

    def reschedule_build(self, server: Server, reason: str) -> None:
        """Give up the build on a host that is down, and have a conductor try another one."""
        parts, place = self._parts, server.task.selection
        data = with_attempt(server.task, place.host, place.node, reason)
        changed = parts.store.advance(
            server, "reschedule build", task=data, host=None, node=None, left_on=[place.host]
        )
        parts.ledger.release_on([server.uuid], [place.node_uuid])
        parts.messages.wake(context_of(changed), None, "build_instances", changed.uuid, changed.generation)


class Cleaning:
    """Releases what is held for no server, and removes old records of deleted servers."""

    def __init__(self, engine: Engine, parts: ConductorParts, options: ConductorOptions, metrics: Metrics) -> None:
        self._engine, self._parts, self._options, self._metrics = engine, parts, options, metrics

    def run(self) -> None:
        """Clean up once."""
        self.release_leaks(self._parts.ledger)
        store, options = self._parts.store, self._options
        if pruned := store.prune_deleted(options.deleted_server_retention):
            LOG.info("records of deleted servers removed", servers=pruned)
        if pruned := store.prune_migrations(options.ended_migration_retention):
            LOG.info("records of ended moves removed", migrations=pruned)
        if pruned := store.prune_faults(options.server_fault_retention):
            LOG.info("old faults removed", faults=pruned)

    def release_leaks(self, ledger: Ledger) -> None:
        """Release claims of servers and migrations that are gone, once they are older than the grace period."""
        with self._engine.connect() as connection:
            now = self._parts.store.times.read(connection)
            older = now - timedelta(seconds=self._options.leaked_claim_timeout)
            findings = find_abandoned(connection, older)
        for finding in findings:
            if heal(self._engine, [finding], ledger):
                self._metrics.leak_released()
                LOG.warning("leaked claim released", consumer=finding.subject, host=finding.host, why=finding.detail)


def _message_key(server: Server) -> tuple[str, int]:
    """What a message is about: a server and its generation; for all of a batch that wait for hosts, the first."""
    task = server.task
    is_batch = server.task_state == SCHEDULING and task.batch and not (task.target or task.attempts)
    return (task.batch[0] if is_batch else server.uuid), server.generation


def outcomes_of(moves: Mapping[str, Outcome], finish_delete: Outcome, undo_power: Outcome) -> dict[str, Outcome]:
    """Task_state -> what is done if the host that has to go on is down. `moves`: those of moves."""
    return {**moves, DELETING: finish_delete, POWERING_ON: undo_power, POWERING_OFF: undo_power}


MOST_AT_ONCE = 500
"""Notices in one round."""
LONGEST_WAIT_SECONDS = 60.0
"""Most seconds between two notices about a guest; each wait is twice as long as the one before."""
REQUEST_ID = "req-guest-removal"
"""Of notices: the request that took the server away has its answer."""


class GuestRemovalNotices:
    """Reminds agents of guests that they have to remove."""

    def __init__(self, parts: ConductorParts) -> None:
        self._parts, self._removals = parts, parts.store.removals

    def run(self) -> None:
        """Send what is due once. Hosts that are down have to wait; what was left on deleted ones is forgotten."""
        for removal in self._removals.drop_of_missing_hosts():
            LOG.warning("host deleted: a guest may be left there", host=removal.host, server=removal.server_uuid)
        hosts_up: dict[str, bool] = {}
        for removal in self._removals.list_due(MOST_AT_ONCE):
            if removal.host not in hosts_up:
                hosts_up[removal.host] = self._parts.hosts.is_up(removal.host)
            wait = _wait_after(removal) if hosts_up[removal.host] else LONGEST_WAIT_SECONDS
            if not self._removals.postpone(removal, wait) or not hosts_up[removal.host]:
                continue
            try:
                self._send(removal)
            except BrokerUnreachable:
                return
            except RpcError as error:
                LOG.warning("notice not sent", host=removal.host, server=removal.server_uuid, reason=str(error))

    def _send(self, removal: GuestRemoval) -> None:
        notice = "refresh_instance", removal.server_uuid, removal.generation
        self._parts.messages.wake(RequestContext.new(REQUEST_ID), removal.host, *notice)
        LOG.info("guest left behind: its host is told again", host=removal.host, server=removal.server_uuid)


def _wait_after(removal: GuestRemoval) -> float:
    """Seconds from this notice to the next."""
    return float(min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2 ** (removal.attempts + 1)))
