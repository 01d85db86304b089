# SPDX-License-Identifier: Apache-2.0
"""Guests as a hypervisor has to define them, and requests of servers with another flavor or image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog

from roost.claims import HeldNode, Ledger
from roost.compute.drivers.base import GuestSpec
from roost.errors import ClaimRejected
from roost.hosts.guests import Guest
from roost.model import Flavor, Image, RequestSpec
from roost.model.consumers import move_of
from roost.servers import Server
from roost.wire import request_to_object
from roost.wire.flavor_image_group import flavor_from_object, image_from_object

LOG = structlog.get_logger(__name__)


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


def end_move(ledger: Ledger, server: Server) -> None:
    """Finish or undo the move of an idle server in the ledger: it keeps what it holds on the host where it is.

    Nothing happens if no move is under way, or if neither end of it is on that host.
    Repeated after a crash, it ends as it would have.
    """
    move = move_of(server.uuid)
    holdings = ledger.read_holdings([server.uuid, move])
    sources = [held for held in holdings.get(move, {}).values() if held.host == server.host]
    targets = [held for held in holdings.get(server.uuid, {}).values() if held.host == server.host]
    if move not in holdings:
        return
    if not (sources or targets):
        reason = f"nothing is held on {server.host}, where the server is"
        LOG.warning("move not ended in the ledger", server=server.uuid, reason=reason)
        return
    is_on_target = bool(targets)
    if targets and sources:  # a resize on one host: the size tells which of the two is left
        is_on_target = not any(_has_size_of(held, server) for held in sources) or _has_size_of(targets[0], server)
    try:
        left = list(holdings[move])  # only this move: the next may begin meanwhile
        ledger.finish_move(move, left) if is_on_target else ledger.undo_move(move, server.uuid, None, left)
    except ClaimRejected as error:  # it would split an affinity group
        LOG.warning("move not ended in the ledger", server=server.uuid, reason=str(error))


def _has_size_of(held: HeldNode, server: Server) -> bool:
    """Whether just the amounts are held that the server needs by its present flavor."""
    wanted = {name: amount for name, amount in server.spec.amounts.items() if amount}
    return wanted == {name: amount for name, amount in held.amounts.items() if amount}
