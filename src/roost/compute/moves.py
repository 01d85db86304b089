# SPDX-License-Identifier: Apache-2.0
"""Handlers of resize and cold migration, in the order of the road: target, source, target; then confirm or revert.

On the source the guest stays defined, powered off, until the move is confirmed. Where source and target are one host,
there is one guest, which is defined anew.
"""

from __future__ import annotations

from dataclasses import replace

import structlog

from roost.compute.builds import (
    booked_on,
    claim_and_spawn,
    claim_locally,
    drop_guest,
    make_guest,
    place_of,
    stored_request,
    with_flavor,
)
from roost.compute.parts import AgentParts, Task, reason_of
from roost.errors import ClaimRejected, DatabaseError, ServerChanged
from roost.messages.objects.flavor_image_group import flavor_to_object
from roost.model import RequestSpec
from roost.model.resources import move_of
from roost.records.server import RESIZE_MIGRATED, RUNNING, SHUTDOWN, STOPPED, Fault, Server
from roost.records.servers import end_move

LOG = structlog.get_logger(__name__)


class MoveHandlers:
    """Resize and cold migration, as far as the host of an agent is source or target."""

    def __init__(self, parts: AgentParts) -> None:
        self._parts = parts
        self.methods = {
            "prep_resize": self.prepare,
            "resize_instance": self.power_off_on_source,
            "finish_resize": self.start_on_target,
            "confirm_resize": self.confirm,
            "revert_resize": self.leave_target,
            "finish_revert_resize": self.return_to_source,
        }

    # --- resize ------------------------------------------------------------------------------------------

    def prepare(self, task: Task) -> None:
        """On the target: claim locally for the new size, then have the source go on; else another host is tried."""
        parts, server = self._parts, task.server
        spec = with_flavor(server.spec, server.task.flavor)
        try:
            claim_locally(parts, server, spec)
        except DatabaseError:
            raise
        except Exception as error:
            self._reschedule(task, error)
            return
        data = replace(server.task, source=_source_of(server))
        moved = parts.store.advance(server, "power off for resize", task=data, migration_status="migrating")
        parts.note(moved)
        parts.wake(task, _source_of(moved)[0], "resize_instance", moved)

    def _reschedule(self, task: Task, error: Exception) -> None:
        """Give the target back, and have a conductor try another."""
        parts, server = self._parts, task.server
        LOG.warning("resize refused", host=parts.host, server=server.uuid, reason=reason_of(error))
        parts.tracker.abort(server.uuid)
        node_uuid = server.task.selection.node_uuid
        changed = parts.store.advance(server, "reschedule resize", task=parts.attempted(server.task, error))
        try:
            parts.ledger.undo_move(move_of(server.uuid), server.uuid, [node_uuid])
        except ClaimRejected as problem:  # it would split an affinity group; the conductor goes on all the same
            LOG.warning("move not undone in the ledger", server=server.uuid, reason=str(problem))
        parts.note(changed)
        parts.wake(task, None, "migrate_server", changed)

    def power_off_on_source(self, task: Task) -> None:
        """On the source: power the guest off, then have the target go on; a failure undoes the resize."""
        parts, server = self._parts, task.server
        try:
            parts.driver.power_off(server.uuid)
        except Exception as error:
            self._undo(task, error)
            return
        handed = parts.store.advance(server, "hand over resize", migration_status="post-migrating")
        parts.note(handed)
        parts.wake(task, handed.task.target_host, "finish_resize", handed)

    def _undo(self, task: Task, error: Exception) -> None:
        parts, server = self._parts, task.server
        LOG.warning("resize undone", host=parts.host, server=server.uuid, reason=reason_of(error))
        fault = parts.fault("The server could not be powered off for its move", error)
        undone = parts.store.advance(server, "undo resize", fault=fault, migration_status="error")
        end_move(parts.ledger, undone)
        parts.note(undone)
        parts.wake(task, server.task.target_host, "refresh_instance", undone)

    def start_on_target(self, task: Task) -> None:
        """On the target: define and start the guest with its new size; the server is resized then, or an error."""
        parts, server = self._parts, task.server
        if server.task_state == RESIZE_MIGRATED:
            server = parts.store.advance(server, "start on target")
            parts.note(server)
        try:
            if _is_on_one_host(server):
                parts.driver.destroy(server.uuid)
            spec = with_flavor(server.spec, server.task.flavor)
            claim_and_spawn(parts, server, spec, powered_on=server.task.vm_state != STOPPED)
        except DatabaseError:
            raise
        except Exception as error:
            self._fail(server, "fail resize", "The server could not be started on its new host", error)
            return
        self._finish_resize(server)

    def _finish_resize(self, server: Server) -> None:
        """Record the new host and size; the task data are kept for confirm and revert."""
        parts, before = self._parts, server.spec
        spec = with_flavor(before, server.task.flavor)
        data = replace(server.task, old_flavor=server.task.old_flavor or flavor_to_object(before.flavor))
        data = replace(data, source=_source_of(server), alternates=(), attempts=())
        power_state = SHUTDOWN if server.task.vm_state == STOPPED else RUNNING
        try:
            resized = parts.store.advance(
                server,
                "finish resize",
                task=data,
                migration_status="finished",
                power_state=power_state,
                launched_at=parts.store.times.stamp(),
                **place_of(server),
                **stored_request(spec),
            )
        except ServerChanged:
            drop_guest(parts, server.uuid)
            return
        parts.note(resized)
        LOG.info("server moved", host=parts.host, server=server.uuid, source=_source_of(server)[0])

    # --- confirm -----------------------------------------------------------------------------------------

    def confirm(self, task: Task) -> None:
        """On the source: remove the old guest, and release what it held."""
        parts, server = self._parts, task.server
        refusal: Exception | None = None
        if not _is_on_one_host(server):
            try:
                parts.driver.destroy(server.uuid)
            except Exception as error:  # it is powered off, and can wait
                refusal = error
        step = "finish confirm stopped" if server.task.vm_state == STOPPED else "finish confirm"
        confirmed = parts.store.advance(server, step, migration_status="confirmed")
        if refusal:
            parts.leave_for_later(confirmed, refusal)
        end_move(parts.ledger, confirmed)
        parts.note(confirmed)
        if confirmed.host != parts.host:
            parts.wake(task, confirmed.host, "refresh_instance", confirmed)

    # --- revert ------------------------------------------------------------------------------------------

    def leave_target(self, task: Task) -> None:
        """On the target: remove the guest with the new size, then have the source go on.

        While the source is down the guest here is the only one that can run: the server stays resized.
        """
        parts, server = self._parts, task.server
        host, node = _source_of(server)
        try:
            if self._has_guest(server) and not (_is_on_one_host(server) or parts.is_up(host)):
                self._undo_revert(server)
                return
            parts.driver.destroy(server.uuid)
        except DatabaseError:
            raise
        except Exception as error:
            self._fail(server, "fail after resize", "The server could not be removed from its new host", error)
            return
        data = replace(server.task, target=None)
        left = parts.store.advance(
            server, "leave target", task=data, migration_status="reverting", host=host, node=node
        )
        parts.note(left)
        parts.wake(task, host, "finish_revert_resize", left)

    def _has_guest(self, server: Server) -> bool:
        """Whether the guest is here: an agent that was killed may have removed it before."""
        return any(guest.uuid == server.uuid and guest.is_own for guest in self._parts.driver.list_guests())

    def _undo_revert(self, server: Server) -> None:
        """Leave the server resized, with the task data that confirm and revert need."""
        parts, (source, _) = self._parts, _source_of(server)
        LOG.warning("revert undone", host=parts.host, server=server.uuid, reason=f"host {source} is down")
        fault = Fault(
            "The server could not be reverted: its old host is down",
            f"{parts.host}: host {source} sends no heartbeats, or is forced down",
            host=parts.host,
        )
        data = server.task
        parts.note(parts.store.advance(server, "undo revert", task=data, fault=fault, migration_status="finished"))

    def return_to_source(self, task: Task) -> None:
        """On the source: start the old guest with its old size, and release the target."""
        parts, server = self._parts, task.server
        spec = with_flavor(server.spec, server.task.old_flavor)
        is_off = server.task.vm_state == STOPPED
        try:
            move = booked_on(parts.ledger, move_of(server.uuid), parts.host)
            held = move or booked_on(parts.ledger, server.uuid, parts.host)
            parts.driver.spawn(make_guest(server, spec, held.guest if held else None), powered_on=not is_off)
        except DatabaseError:
            raise
        except Exception as error:
            self._fail(server, "fail after resize", "The server could not be started on its old host", error, spec)
            return
        step = "finish revert stopped" if is_off else "finish revert"
        power_state = SHUTDOWN if is_off else RUNNING
        values = {"power_state": power_state, **stored_request(spec)}
        reverted = parts.store.advance(server, step, migration_status="reverted", **values)
        end_move(parts.ledger, reverted)
        parts.note(reverted)
        LOG.info("move reverted", host=parts.host, server=server.uuid)

    def _fail(
        self, server: Server, step: str, message: str, error: Exception, spec: RequestSpec | None = None
    ) -> None:
        """Give the server the state error, on the host where its record has it. `spec`: its request from now on."""
        parts = self._parts
        LOG.warning("move failed", host=parts.host, server=server.uuid, reason=reason_of(error))
        fault = parts.fault(message, error)
        failed = parts.store.advance(
            server, step, fault=fault, migration_status="error", **(stored_request(spec) if spec else {})
        )
        end_move(parts.ledger, failed)
        parts.note(failed)
        if failed.host != parts.host:
            drop_guest(parts, server.uuid)


def _source_of(server: Server) -> tuple[str, str]:
    """Host and node that a move leaves."""
    return server.task.source or (str(server.host), str(server.node))


def _is_on_one_host(server: Server) -> bool:
    """Whether source and target are the same host."""
    return _source_of(server)[0] == server.task.target_host
