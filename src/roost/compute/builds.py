# SPDX-License-Identifier: Apache-2.0
"""Handlers that bring a server to this host, start, stop and rebuild it there, and take it away again.

A guest is made anew on its own host with another image, or here in place of a dead host. `make_guest` says what a
hypervisor has to define; `with_flavor` and `with_image` give the request of a server with another size or image.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structlog
from sqlalchemy import Connection

from roost.compute.drivers.base import GuestSpec
from roost.compute.parts import AgentParts, Task, reason_of
from roost.errors import ComputeResourcesUnavailable, DatabaseError, ServerChanged
from roost.hosts.guests import Guest
from roost.ledger.claim import HeldNode
from roost.ledger.ledger import Ledger
from roost.messages.objects.flavor_image_group import flavor_from_object, image_from_object
from roost.messages.objects.request import request_to_object
from roost.model import Flavor, Image, RequestSpec
from roost.model.resources import move_of
from roost.records.server import (
    DELETED,
    DELETING,
    EVACUATION,
    RUNNING,
    SCHEDULING,
    SHUTDOWN,
    STOPPED,
    Migration,
    Server,
)
from roost.records.server_views import ENDED
from roost.records.servers import InTransaction, end_move


def make_guest(server: Server, spec: RequestSpec, placement: Guest | None) -> GuestSpec:
    """The guest of a server with the flavor and the image of a request."""
    flavor, image = spec.flavor, spec.image
    return GuestSpec(
        uuid=server.uuid,
        name=server.name,
        vcpus=flavor.vcpus,
        memory_mb=flavor.memory_mb,
        root_gb=flavor.root_gb,
        ephemeral_gb=flavor.ephemeral_gb,
        swap_mb=flavor.swap,
        image=_properties(image),
        extra_specs=dict(flavor.extra_specs),
        placement=placement,
    )


def _properties(image: Image | None) -> dict[str, Any]:
    if image is None:
        return {}
    return {name: image.properties.text_of(name) for name in image.properties}


def with_flavor(spec: RequestSpec, flavor: Mapping[str, Any] | None) -> RequestSpec:
    """The request with the flavor of a Flavor object; the same if that is None.

    NUMA topology and PCI requests are derived from the flavor again, by the scheduler that gets the request.
    """
    if flavor is None:
        return spec
    return spec.changed(flavor=flavor_from_object(flavor), numa_topology=None, pci_requests=())


def with_image(spec: RequestSpec, image: Mapping[str, Any] | None) -> RequestSpec:
    """The request with the image of an ImageMeta object; the same if that is None."""
    return spec if image is None else spec.changed(image=image_from_object(image))


def stored_request(spec: RequestSpec) -> dict[str, Any]:
    """What a server's record has of a request: values for `ServerStore.advance`."""
    flavor: Flavor = spec.flavor
    return {"request_spec": request_to_object(spec), "flavor": flavor.to_details()}


# --- what the ledger has booked ----------------------------------------------------------------------


def booked_on(ledger: Ledger, consumer: str, host: str) -> HeldNode | None:
    """What a consumer holds of a host, with pinned CPUs, NUMA cells and PCI devices; None if nothing."""
    held = ledger.read_holdings([consumer]).get(consumer, {}).values()
    return next((each for each in held if each.host == host), None)


LOG = structlog.get_logger(__name__)


class BuildHandlers:
    """Build, unshelve, shelve and delete servers on the host of an agent."""

    def __init__(self, parts: AgentParts) -> None:
        self._parts = parts
        self.methods = {
            "build_and_run_instance": self.build,
            "unshelve_instance": self.unshelve,
            "shelve_instance": self.shelve,
            "terminate_instance": self.terminate,
        }

    # --- build and unshelve ------------------------------------------------------------------------------

    def build(self, task: Task) -> None:
        """Claim, define and start the guest; the server is active then. After a failure another host is tried."""
        parts, server = self._parts, task.server
        if server.task_state == SCHEDULING:
            server = parts.store.advance(server, "start build", **place_of(server))
            parts.note(server)
        try:
            claim_and_spawn(parts, server, server.spec)
        except DatabaseError:
            raise  # the janitor of a conductor sends the message again
        except Exception as error:
            self._reschedule(task, server, "reschedule build", "build_instances", error)
            return
        self._finish(server, "finish build")

    def unshelve(self, task: Task) -> None:
        """Claim, define and start the guest of a shelved server. After a failure a conductor tries another host."""
        try:
            claim_and_spawn(self._parts, task.server, task.server.spec)
        except DatabaseError:
            raise
        except Exception as error:
            self._reschedule(task, task.server, "assign", "unshelve_instance", error)
            return
        self._finish(task.server, "finish unshelve", **place_of(task.server))

    def _finish(self, server: Server, step: str, **values: Any) -> None:
        parts = self._parts
        try:
            finished = parts.store.advance(
                server, step, power_state=RUNNING, launched_at=parts.store.times.stamp(), **values
            )
        except ServerChanged:
            drop_guest(parts, server.uuid)
            return
        parts.tracker.build_succeeded()
        parts.note(finished)
        LOG.info("server built", host=parts.host, server=server.uuid, request_id=server.task.request_id)

    def _reschedule(self, task: Task, server: Server, step: str, method: str, error: Exception) -> None:
        """Remove what was begun here, and have a conductor try another host."""
        parts, selection = self._parts, server.task.selection
        LOG.warning("build failed", host=parts.host, server=server.uuid, reason=reason_of(error))
        parts.tracker.build_failed()
        parts.tracker.abort(server.uuid)
        try:
            changed = parts.store.advance(
                server, step, task=parts.attempted(server.task, error), host=None, node=None
            )
        except ServerChanged:
            drop_guest(parts, server.uuid)
            return
        try:
            parts.driver.destroy(server.uuid)
        except Exception as problem:
            parts.leave_for_later(changed, problem)
        # Only here: a claim that a conductor has made elsewhere since then stays.
        parts.ledger.release_on([server.uuid], [selection.node_uuid])
        parts.note(changed)
        parts.wake(task, None, method, changed)

    # --- shelve and delete -------------------------------------------------------------------------------

    def shelve(self, task: Task) -> None:
        """Record that the server is on no host, then remove its guest and release what it held.

        In this order: a conductor that takes the shelving back meanwhile finds the guest in its place. What an agent
        that is killed in between leaves behind, the comparison with the hypervisor and the conductors clean up.
        """
        parts, server = self._parts, task.server
        shelved = parts.store.advance(server, "finish shelve", host=None, node=None, power_state=None)
        try:
            self._remove_shelved(shelved)
        except Exception as error:
            parts.leave_for_later(shelved, error)
            fault = parts.fault("The guest of the shelved server could not be removed yet", error)
            parts.store.add_fault(server.uuid, fault)
        parts.note(shelved)

    def _remove_shelved(self, shelved: Server) -> None:
        """Remove the guest and release its resources, unless the server is being unshelved with them already."""
        parts, current = self._parts, self._parts.store.get(shelved.uuid)
        if not belongs_here(current, parts.host):
            parts.driver.destroy(shelved.uuid)
        if current.generation == shelved.generation:
            parts.ledger.release([shelved.uuid, move_of(shelved.uuid)], spares_used=True)

    def terminate(self, task: Task) -> None:
        """Remove the guest, release what the server held, and mark it deleted.

        Guests that a move has left on other hosts are removed there. While the hypervisor refuses, the server stays:
        a conductor sends the message again.
        """
        parts, server = self._parts, task.server
        parts.driver.destroy(server.uuid)
        parts.ledger.release([server.uuid, move_of(server.uuid)])
        moves = [each for each in parts.store.list_migrations(server.uuid) if each.status not in ENDED]
        others = {host for move in moves for host in (move.source_compute, move.dest_compute)} - {parts.host}
        deleted = parts.store.advance(
            server, "finish delete", also=self._cancel(moves), left_on=others, power_state=None
        )
        parts.forget(server.uuid)
        LOG.info("server deleted", host=parts.host, server=server.uuid, request_id=server.task.request_id)
        for host in sorted(filter(None, others)):
            parts.wake(task, host, "refresh_instance", deleted)

    def _cancel(self, moves: Sequence[Migration]) -> InTransaction:
        """The end of all moves of a server that is deleted."""
        updates = [self._parts.store.update_migration(move.uuid, status="cancelled") for move in moves]

        def write(connection: Connection) -> None:
            for update in updates:
                update(connection)

        return write


def claim_locally(parts: AgentParts, server: Server, spec: RequestSpec) -> Guest | None:
    """Claim what the ledger has booked for a server on its target: its pinned CPUs, NUMA cells and PCI devices.

    ComputeResourcesUnavailable if the ledger has booked nothing, or the host has less than that.
    """
    held = booked_on(parts.ledger, server.uuid, parts.host)
    if held is None:
        raise ComputeResourcesUnavailable("the ledger has booked nothing here for the server")
    parts.tracker.claim(server.uuid, spec.flavor, server.task.selection.limits, held.guest)
    return held.guest


def claim_and_spawn(parts: AgentParts, server: Server, spec: RequestSpec, powered_on: bool = True) -> None:
    """Claim locally and start the guest. One that was started by an agent that was killed is adopted."""
    guest = claim_locally(parts, server, spec)
    parts.driver.spawn(make_guest(server, spec, guest), powered_on)


def drop_guest(parts: AgentParts, uuid: str) -> None:
    """Remove a guest whose server was changed by another process meanwhile, unless it belongs here all the same."""
    found = parts.store.find([uuid])
    if found and belongs_here(found[0], parts.host):
        parts.note(found[0])
        return
    try:
        parts.driver.destroy(uuid)
    except Exception as error:
        for server in found:
            parts.leave_for_later(server, error)
    else:
        LOG.info("guest removed: its server was deleted or is built elsewhere", host=parts.host, server=uuid)
    parts.forget(uuid)


def belongs_here(server: Server, host: str) -> bool:
    """Whether a guest of the server may be on the host, by the server's own record."""
    if server.vm_state == DELETED or server.task_state == DELETING:
        return False
    return host in hosts_of(server)


def hosts_of(server: Server) -> tuple[str | None, ...]:
    """The host of a server, the one that was chosen for it and the one that it leaves; None where there is none."""
    return server.host, server.task.target_host, server.task.source[0] if server.task.source else None


def place_of(server: Server) -> dict[str, Any]:
    """Host, node and zone of the chosen host."""
    selection = server.task.selection
    return {"host": selection.host, "node": selection.node, "availability_zone": selection.availability_zone}


class PowerHandlers:
    """Start and stop servers on the host of an agent."""

    def __init__(self, parts: AgentParts) -> None:
        self._parts = parts
        self.methods = {"start_instance": self.start, "stop_instance": self.stop}

    def start(self, task: Task) -> None:
        """Start the guest; the server is active then, or stopped with a fault."""
        self._change(task, self._parts.driver.power_on, "finish start", RUNNING, "started")

    def stop(self, task: Task) -> None:
        """Stop the guest; the server is stopped then, or active with a fault."""
        self._change(task, self._parts.driver.power_off, "finish stop", SHUTDOWN, "stopped")

    def _change(self, task: Task, operate: Callable[[str], None], step: str, power_state: str, done: str) -> None:
        parts, server = self._parts, task.server
        try:
            operate(server.uuid)
        except Exception as error:
            fault = parts.fault(f"The server could not be {done}", error)
            parts.note(parts.store.advance(server, "fail power change", fault=fault))
            return
        parts.note(parts.store.advance(server, step, power_state=power_state))


class RebuildHandlers:
    """Rebuild servers on the host of an agent, also those of dead hosts."""

    def __init__(self, parts: AgentParts) -> None:
        self._parts = parts
        self.methods = {"rebuild_instance": self.rebuild}

    def rebuild(self, task: Task) -> None:
        """Make the guest anew; the server is then what it was before, or has the state error and a fault."""
        parts, server = self._parts, task.server
        try:
            if server.task.action == EVACUATION:
                self._take_over(server)
            else:
                self._replace(server)
        except DatabaseError:
            raise  # the janitor of a conductor sends the message again
        except Exception as error:
            self._fail(server, error)
            return
        try:
            finished = self._finish(server)
        except ServerChanged:
            drop_guest(parts, server.uuid)
            return
        end_move(parts.ledger, finished)
        parts.note(finished)
        LOG.info("server rebuilt", host=parts.host, server=server.uuid, action=server.task.action)
        for host in self._left(server):
            parts.wake(task, host, "refresh_instance", finished)

    def _left(self, server: Server) -> list[str]:
        """The host that the server was evacuated from: it may be back, and run the old guest."""
        source = server.task.source
        return [source[0]] if source and source[0] != self._parts.host else []

    def _take_over(self, server: Server) -> None:
        claim_and_spawn(self._parts, server, server.spec, powered_on=server.task.vm_state != STOPPED)

    def _replace(self, server: Server) -> None:
        parts = self._parts
        held = booked_on(parts.ledger, server.uuid, parts.host)
        guest = make_guest(server, with_image(server.spec, server.task.image), held.guest if held else None)
        parts.driver.destroy(server.uuid)
        parts.driver.spawn(guest, powered_on=server.task.vm_state != STOPPED)

    def _finish(self, server: Server) -> Server:
        data, spec = server.task, with_image(server.spec, server.task.image)
        is_off = data.vm_state == STOPPED
        values: dict[str, Any] = {**place_of(server), "power_state": SHUTDOWN if is_off else RUNNING}
        if data.image is not None:
            values |= {**stored_request(spec), "image_id": spec.image.id if spec.image else None}
        times = self._parts.store.times
        step = "finish rebuild stopped" if is_off else "finish rebuild"
        values["launched_at"] = times.stamp()
        return self._parts.store.advance(server, step, migration_status="done", left_on=self._left(server), **values)

    def _fail(self, server: Server, error: Exception) -> None:
        """Give the server the state error; it stays on its host, and what was begun here for another is removed."""
        parts = self._parts
        LOG.warning("rebuild failed", host=parts.host, server=server.uuid, reason=reason_of(error))
        verb = "evacuated" if server.task.action == EVACUATION else "rebuilt"
        fault = parts.fault(f"The server could not be {verb}", error)
        failed = parts.store.advance(server, "fail rebuild", fault=fault, migration_status="error")
        end_move(parts.ledger, failed)
        parts.note(failed)
        if failed.host != parts.host:
            drop_guest(parts, server.uuid)
