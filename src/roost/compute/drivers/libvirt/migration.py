# SPDX-License-Identifier: Apache-2.0
"""Live migration of one domain from one libvirt daemon to another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roost.compute.drivers.libvirt.connection import connected_to, load_library
from roost.errors import HypervisorError


def check_source(connection: Any, source: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """HypervisorError where guests of `source` cannot run here; both are `migration_address`es."""
    if not own.keys() <= source.keys():
        raise HypervisorError("its host has no libvirt: guests do not move live between kinds of hypervisors")
    if source["host_uuid"] == own["host_uuid"]:
        raise HypervisorError(f"{source['uri']} is this host: a guest cannot move to where it is")
    for name in ("arch", "hypervisor_type", "virt_type"):
        if source[name] != own[name]:
            raise HypervisorError(f"{name} of the guest's host is {source[name]}, and {own[name]} here")
    if source["hypervisor_version"] > own["hypervisor_version"]:
        versions = f"{source['hypervisor_version']}, which is newer than {own['hypervisor_version']} here"
        raise HypervisorError(f"hypervisor_version of the guest's host is {versions}")
    if source["cpu"] and connection.compareCPU(source["cpu"]) == load_library().VIR_CPU_COMPARE_INCOMPATIBLE:
        raise HypervisorError("the processor here lacks features of the one that the guest runs on")


def migrate(uuid: str, domain: Any, target: Mapping[str, Any], slows_down: bool) -> bool:
    """Move a domain to a target; True where the caller has to remove it here: an earlier call was interrupted.

    `domain`: None if it is not here any more, which is right if it runs on the target.
    """
    library = load_library()
    with connected_to(target["uri"]) as peer:
        runs_there = _runs_on(peer, uuid)
        if domain is None:
            if runs_there:
                return False
            raise HypervisorError(f"guest {uuid} is neither on this host nor running on {target['uri']}")
        if runs_there:
            if domain.state()[0] == library.VIR_DOMAIN_RUNNING:
                raise HypervisorError(f"guest {uuid} runs here and on {target['uri']}")
            return True
        flags = library.VIR_MIGRATE_LIVE | library.VIR_MIGRATE_UNDEFINE_SOURCE | library.VIR_MIGRATE_PERSIST_DEST
        if slows_down:
            flags |= library.VIR_MIGRATE_AUTO_CONVERGE
        where = {
            library.VIR_MIGRATE_PARAM_URI: target["migrate_uri"],
            library.VIR_MIGRATE_PARAM_LISTEN_ADDRESS: target["listen_address"],
        }
        domain.migrate3(peer, where, flags)
    return False


def _runs_on(peer: Any, uuid: str) -> bool:
    library = load_library()
    try:
        state, _ = peer.lookupByUUIDString(uuid).state()
    except library.libvirtError as error:
        if error.get_error_code() == library.VIR_ERR_NO_DOMAIN:
            return False
        raise
    return bool(state == library.VIR_DOMAIN_RUNNING)
