# SPDX-License-Identifier: Apache-2.0
"""Options of the sections [libvirt] and [pci], by nova's names; host_* are Roost's own."""

from __future__ import annotations

from dataclasses import dataclass

from roost.errors import OptionError
from roost.options.declare import option

GROUP = "libvirt"
KVM, QEMU = "kvm", "qemu"
NO_CPU_MODE = "none"
CPU_MODES = ("host-model", "host-passthrough", "maximum", NO_CPU_MODE)


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
        group=GROUP,
        reloads=False,
        in_fleet=False,
        help="kvm, or qemu to emulate the processor where there is no /dev/kvm",
    )
    cpu_mode: str | None = option(
        None,
        group=GROUP,
        reloads=False,
        in_fleet=False,
        help="processor that guests see: host-model, host-passthrough, maximum or none (QEMU's default); "
        "unset: host-model with kvm, none with qemu",
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
    host_vcpus: int = option(
        0,
        min=0,
        group=GROUP,
        reloads=False,
        in_fleet=False,
        help="CPUs to report instead of the machine's, if daemons share it; no NUMA cells then; 0: the machine's",
    )
    host_memory_mb: int = option(
        0,
        min=0,
        group=GROUP,
        reloads=False,
        in_fleet=False,
        help="memory (MiB) to report instead of the machine's; no NUMA cells are reported then; 0: the machine's",
    )
    host_disk_gb: int = option(
        -1,
        min=-1,
        group=GROUP,
        reloads=False,
        in_fleet=False,
        help="disk (GiB) to report; -1: the size of the file system of host_disk_path",
    )
    host_disk_path: str = option(
        "/var/lib/roost/instances",
        group=GROUP,
        reloads=False,
        in_fleet=False,
        help="folder for disks of guests, or what will be it; the size of its file system is the host's disk",
    )

    @property
    def domain_type(self) -> str:
        """`virt_type`; OptionError for one that nova's driver alone has; schedulers accept it in the same file."""
        return _one_of("virt_type", self.virt_type, (KVM, QEMU))

    @property
    def guest_cpu_mode(self) -> str:
        """`cpu_mode`, with its default filled in; OptionError for one that only nova's driver has."""
        usual = "host-model" if self.virt_type == KVM else NO_CPU_MODE
        return _one_of("cpu_mode", self.cpu_mode or usual, CPU_MODES)

    def machine_for(self, architecture: str) -> str | None:
        """Machine type for guests of an architecture; None is libvirt's own choice."""
        named = dict(each.partition("=")[::2] for each in self.hw_machine_type)
        return named.get(architecture) or ("pc" if architecture in ("x86_64", "i686") else None)


def _one_of(name: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise OptionError(
            f"[libvirt] {name}: the driver of Roost cannot do {value!r}", f"write one of: {', '.join(known)}"
        )
    return value


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
