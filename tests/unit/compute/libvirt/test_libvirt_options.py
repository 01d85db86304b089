# SPDX-License-Identifier: Apache-2.0
import pytest

from roost.compute.libvirt.driver import LibvirtDriver
from roost.compute.libvirt.options import LibvirtOptions
from roost.errors import OptionError
from roost.scheduler.all_options import read_options


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


def test_a_nova_conf_with_what_only_novas_driver_can_do_is_refused_by_the_driver_and_read_by_others(tmp_path):
    file = tmp_path / "nova.conf"
    file.write_text("[libvirt]\nvirt_type = lxc\ncpu_mode = custom\n")
    options = read_options([file]).fill(LibvirtOptions)
    with pytest.raises(OptionError, match=r"\[libvirt\] virt_type: .* cannot do 'lxc'"):
        LibvirtDriver(options)
    with pytest.raises(OptionError, match=r"\[libvirt\] cpu_mode: .* cannot do 'custom'"):
        LibvirtDriver(LibvirtOptions(cpu_mode="custom"))


def test_totals_of_a_host_are_numbers(tmp_path):
    file = tmp_path / "roost.conf"
    file.write_text("[libvirt]\nhost_vcpus = 4\nhost_memory_mb = 2048\n")
    options = read_options([file]).fill(LibvirtOptions)
    assert (options.host_vcpus, options.host_memory_mb, options.host_disk_gb) == (4, 2048, -1)
