# SPDX-License-Identifier: Apache-2.0
"""Guests as a hypervisor has to define them, and requests of servers with another flavor or image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roost.compute.drivers.base import GuestSpec
from roost.hosts.guests import Guest
from roost.ledger.ledger import Ledger
from roost.ledger.unlocked_read import HeldNode
from roost.messages.objects.flavor_image_group import flavor_from_object, image_from_object
from roost.messages.objects.request import request_to_object
from roost.model import Flavor, Image, RequestSpec
from roost.records.server import Server


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
