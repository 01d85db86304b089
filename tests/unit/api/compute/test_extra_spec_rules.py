# SPDX-License-Identifier: Apache-2.0
import pytest

from roost.api.compute.flavors import check_extra_spec
from roost.errors import BadInput

GOOD = {
    "hw:cpu_policy": ["dedicated", "shared", "mixed"],
    "hw:numa_nodes": ["1", "8"],
    "hw:numa_cpus.0": ["0-3,^2", "7"],
    "hw:numa_mem.11": ["512"],
    "hw:mem_page_size": ["any", "2048", "1GB", "2MiB"],
    "hw:boot_menu": ["True", "no", "0"],
    "hw:cpu_max_sockets": ["2"],
    "hw_rng:allowed": ["true"],
    "quota:disk_read_bytes_sec": ["10240000"],
    "quota:vif_inbound_average": ["1"],
    "quota:cpu_shares_level": ["high"],
    "resources:VCPU": ["2"],
    "resources1:CUSTOM_GOLD": ["0"],
    "trait:HW_CPU_X86_AVX2": ["required", "forbidden"],
    "trait_a:CUSTOM_X": ["required"],
    "pci_passthrough:alias": ["a100:4", "a1:2,b1:1"],
    "group_policy": ["isolate"],
    "os:secure_boot": ["required"],
    "aggregate_instance_extra_specs:ssd": ["<or> true <or> 1"],
    "capabilities:cpu_info:vendor": ["s== Intel"],
    "own_namespace:x": ["y"],
    "plain": [""],
}
WRONG = {
    "hw:cpu_policy": ["", "dedicatd", "Dedicated"],
    "hw:numa_nodes": ["0", "-1", "two", "1.0", "\u0661"],
    "hw:numa_cpus.0": ["0-", "a"],
    "hw:numa_cpus.x": ["0"],
    "hw:mem_page_size": ["huge", "-1"],
    "hw:boot_menu": ["maybe"],
    "hw:no_such": ["1"],
    "quota:cpu_shares": ["many"],
    "resources:VCPU": ["x", "-1", "9" * 19],
    "resources:GOLD": ["1"],
    "trait:HW_CPU_X86_AVX2": ["yes"],
    "trait:avx2": ["required"],
    "pci_passthrough:alias": ["a100", "a100:"],
    "group_policy": ["all"],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in GOOD.items() for value in values])
def test_a_value_that_its_name_allows_passes(name, value):
    check_extra_spec(name, value)


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_a_name_or_value_that_does_not_exist_is_refused(name, value):
    with pytest.raises(BadInput, match="Validation failed"):
        check_extra_spec(name, value)
