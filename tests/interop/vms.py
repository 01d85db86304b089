# SPDX-License-Identifier: Apache-2.0
"""Real virtual machines on three hosts with libvirt: `make interop PART=vms`."""

from tests.interop.libvirt_hosts import LibvirtHosts
from tests.interop.vm_cloud import VmCloud
from tests.interop.vm_driver import run_driver
from tests.interop.vm_road import run_road

NAMES = ("vm-1", "vm-2", "vm-3")


def run(checks, folder):
    """First each operation of the driver, then the whole road of a request."""
    with LibvirtHosts(NAMES, folder) as hosts:
        run_driver(checks, hosts)
    with LibvirtHosts(NAMES, folder) as hosts:
        stranger = hosts["vm-3"].start_stranger()
        with VmCloud(folder, hosts) as cloud:
            run_road(checks, hosts, cloud, stranger)
