# SPDX-License-Identifier: Apache-2.0
"""Operations on one domain of libvirt. Each may be repeated, and may meet a domain that is gone meanwhile."""

from __future__ import annotations

from typing import Any

from roost.compute.drivers.libvirt.connection import load_library
from roost.compute.drivers.libvirt.domain_xml import FoundDomain, read_domain
from roost.errors import HypervisorError
from roost.records.server import NO_STATE, RUNNING, SHUTDOWN


def find_own(connection: Any, uuid: str) -> Any:
    """The domain of a guest that Roost defined; None if there is none, HypervisorError for one of another program."""
    library = load_library()
    try:
        domain = connection.lookupByUUIDString(uuid)
    except library.libvirtError as error:
        if error.get_error_code() == library.VIR_ERR_NO_DOMAIN:
            return None
        raise
    found = read(domain)
    if found is not None and not found.is_own:
        remedy = "the hypervisor's other user has to remove it"
        raise HypervisorError(f"guest {uuid} ({found.name}) was not defined by Roost: it is not touched", remedy)
    return domain if found else None


def get_own(connection: Any, uuid: str) -> Any:
    """The domain of a guest that Roost defined; HypervisorError if there is none."""
    domain = find_own(connection, uuid)
    if domain is None:
        raise HypervisorError(f"guest {uuid} is not on this host")
    return domain


def read(domain: Any) -> FoundDomain | None:
    """What is known of a domain; None if it is gone meanwhile."""
    library = load_library()
    try:
        return read_domain(domain.XMLDesc())
    except library.libvirtError as error:
        if error.get_error_code() == library.VIR_ERR_NO_DOMAIN:
            return None
        raise


def power_state_of(domain: Any) -> str:
    """One of `roost.records.server.POWER_STATES`; paused guests have no state."""
    library = load_library()
    try:
        state, _ = domain.state()
    except library.libvirtError as error:
        if error.get_error_code() == library.VIR_ERR_NO_DOMAIN:
            return SHUTDOWN
        raise
    if state in (library.VIR_DOMAIN_RUNNING, library.VIR_DOMAIN_BLOCKED, library.VIR_DOMAIN_SHUTDOWN):
        return RUNNING  # VIR_DOMAIN_SHUTDOWN: the guest has been asked to stop, and still runs
    return SHUTDOWN if state in (library.VIR_DOMAIN_SHUTOFF, library.VIR_DOMAIN_CRASHED) else NO_STATE


def start(domain: Any) -> None:
    """Start a domain, or resume one that a user has paused; one that runs is no error.

    One that is paused by a migration stays so: it may run on the target.
    """
    library = load_library()
    if domain.isActive():
        if domain.state() == [library.VIR_DOMAIN_PAUSED, library.VIR_DOMAIN_PAUSED_USER]:
            domain.resume()
        return
    try:
        domain.create()
    except library.libvirtError:
        if not domain.isActive():  # another call may have been faster
            raise


def stop(domain: Any) -> None:
    """Stop a domain at once; one that is stopped is no error."""
    library = load_library()
    if not domain.isActive():
        return
    try:
        domain.destroy()
    except library.libvirtError as error:
        if error.get_error_code() not in (library.VIR_ERR_OPERATION_INVALID, library.VIR_ERR_NO_DOMAIN):
            raise  # else it has stopped by itself


def remove(domain: Any) -> None:
    """Stop a domain and remove its definition; None is no error."""
    if domain is None:
        return
    library = load_library()
    flags = (
        library.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
        | library.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
        | library.VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
        | library.VIR_DOMAIN_UNDEFINE_NVRAM
    )
    try:
        stop(domain)
        domain.undefineFlags(flags)
    except library.libvirtError as error:
        if error.get_error_code() != library.VIR_ERR_NO_DOMAIN:
            raise
