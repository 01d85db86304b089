# SPDX-License-Identifier: Apache-2.0
"""Real virtual machines on three hosts with libvirt: `make interop PART=vms`."""

from tests.interop.libvirt_hosts import LibvirtHosts
from tests.interop.vm_driver import run_driver

NAMES = ("vm-1", "vm-2", "vm-3")


def run(checks, folder):
    """Each operation of the driver."""
    with LibvirtHosts(NAMES, folder) as hosts:
        run_driver(checks, hosts)
