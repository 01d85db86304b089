# SPDX-License-Identifier: Apache-2.0
import pytest

from roost.compute.drivers.libvirt import LibvirtOptions


@pytest.mark.parametrize(
    ("options", "mode"),
    [
        (LibvirtOptions(), "host-model"),
        (LibvirtOptions(virt_type="qemu"), "none"),
        (LibvirtOptions(cpu_mode="host-passthrough"), "host-passthrough"),
    ],
)
def test_guests_see_the_hosts_processor_with_kvm_only(options, mode):
    assert options.guest_cpu_mode == mode


def test_machine_types_are_named_by_architecture():
    options = LibvirtOptions(hw_machine_type=("x86_64=q35", "aarch64=virt"))
    assert [options.machine_for(each) for each in ("x86_64", "aarch64", "s390x")] == ["q35", "virt", None]
    assert LibvirtOptions().machine_for("x86_64") == "pc"
