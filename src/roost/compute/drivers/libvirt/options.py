# SPDX-License-Identifier: Apache-2.0
"""Options of the sections [libvirt] and [pci], by nova's names; host_* are Roost's own."""

from __future__ import annotations

from dataclasses import dataclass

from roost.options import option

GROUP = "libvirt"
KVM, QEMU = "kvm", "qemu"
NO_CPU_MODE = "none"


@dataclass(frozen=True)
class LibvirtOptions:
    """How an agent reaches libvirt, what guests are made of, and how they move."""

    connection_uri: str = option(
        "qemu:///system",
        group=GROUP,
        reloads=False,
        in_fleet=False,
        help="URI of libvirt on this host, as virsh -c takes it; of a daemon of its own: "
        "qemu+unix:///session?socket=/FOLDER/libvirt-sock",
    )
    virt_type: str = option(
        KVM,
        choices=(KVM, QEMU),
        group=GROUP,
        reloads=False,
        in_fleet=False,
        help="kvm, or qemu to emulate the processor where there is no /dev/kvm",
    )
    cpu_mode: str | None = option(
        None,
        choices=("host-model", "host-passthrough", "maximum", NO_CPU_MODE),
        group=GROUP,
        reloads=False,
        in_fleet=False,
        help="processor that guests see; unset: host-model with kvm, none (QEMU's default) with qemu",
    )
    hw_machine_type: tuple[str, ...] = option(
        (),
        group=GROUP,
        reloads=False,
        in_fleet=False,
        help="machine type of guests by architecture: x86_64=q35, aarch64=virt; default: pc for x86_64, "
        "else libvirt's own",
    )
    live_migration_uri: str | None = option(
        None,
        group=GROUP,
        reloads=False,
        in_fleet=False,
        help="URI at which agents on other hosts reach libvirt on this host; %s becomes live_migration_inbound_addr; "
        "unset: connection_uri if it names a machine or a socket, else qemu+tcp://%s/system",
    )
    live_migration_inbound_addr: str | None = option(
        None,
        group=GROUP,
        reloads=False,
        in_fleet=False,
        help="name or address of this host to which the memory of migrating guests is sent; unset: the host's name",
    )
    live_migration_permit_auto_converge: bool = option(
        False,
        group=GROUP,
        reloads=False,
        in_fleet=False,
        help="slow a guest down whose memory changes faster than it can be copied",
    )
    instances_path: str = option(
        "/var/lib/roost/instances",
        group="DEFAULT",
        reloads=False,
        in_fleet=False,
        help="folder on whose file system disks of guests will be; its size is reported as the host's disk",
    )
    host_vcpus: int | None = option(
        None,
        min=1,
        group=GROUP,
        reloads=False,
        in_fleet=False,
        help="CPUs to report instead of the machine's, if daemons share it; then no NUMA cells are reported",
    )
    host_memory_mb: int | None = option(
        None,
        min=1,
        group=GROUP,
        reloads=False,
        in_fleet=False,
        help="memory (MiB) to report instead of the machine's; then no NUMA cells are reported",
    )
    host_disk_gb: int | None = option(
        None,
        min=0,
        group=GROUP,
        reloads=False,
        in_fleet=False,
        help="disk (GiB) to report instead of that of instances_path",
    )

    @property
    def guest_cpu_mode(self) -> str:
        """`cpu_mode`, with its default filled in."""
        return self.cpu_mode or ("host-model" if self.virt_type == KVM else NO_CPU_MODE)

    def machine_for(self, architecture: str) -> str | None:
        """Machine type for guests of an architecture; None is libvirt's own choice."""
        named = dict(each.partition("=")[::2] for each in self.hw_machine_type)
        return named.get(architecture) or ("pc" if architecture in ("x86_64", "i686") else None)


@dataclass(frozen=True)
class PciOptions:
    """Which PCI devices of a host guests may get."""

    device_spec: tuple[str, ...] = option(
        (),
        group="pci",
        repeats=True,
        reloads=False,
        in_fleet=False,
        old=("pci_passthrough_whitelist", "pci.passthrough_whitelist"),
        help='devices that guests may get, a JSON object a line: {"vendor_id": "8086", "product_id": "10ed", '
        '"address": "0000:0a:*", "physical_network": "net1"}; none: guests get none',
    )
