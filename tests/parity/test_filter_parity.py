# SPDX-License-Identifier: Apache-2.0
"""Every filter against its plain loop, on generated hosts and requests: the same answers, the same errors."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from tests.parity import plain, plain_filters
from tests.parity.plain_filters import Chance, Raises

from roost.errors import RuleError
from roost.model import Image
from roost.plugins.registry import FILTERS
from roost.testing import make_spec
from roost.testing import strategies as made

LOOPS = plain_filters.FILTERS | plain.FILTERS
BY_NAME = {each.__name__: each for each in FILTERS}

ANY_SPEC = made.specs()
SIZES = {
    "vcpus": st.integers(1, 8),
    "memory_mb": st.sampled_from([0, 1, 512, 1024, 2048]),
    "root_gb": st.sampled_from([0, 1, 2, 5]),
    "ephemeral_gb": st.sampled_from([0, 0, 1]),
    "swap": st.sampled_from([0, 1, 1024]),
}


@dataclass
class Varied:
    """What is varied for one filter: columns of the hosts, metadata of aggregates, fields of the request, options."""

    columns: str = ""
    keys: str = ""
    spec: Any = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)

    def specs(self):
        return st.builds(make_spec, **self.spec) if isinstance(self.spec, dict) else self.spec

    def tables(self):
        return made.tables_of(self.columns.split(), self.keys.split())


CPUS = "vcpus_total vcpus_used cpu_allocation_ratio"
MEMORY = "total_usable_ram_mb free_ram_mb ram_allocation_ratio"
DISK = "total_usable_disk_gb free_disk_mb disk_allocation_ratio"
SCOPED = "aggregate_instance_extra_specs"
CAPABILITIES = (
    "free_ram_mb capabilities:free_ram_mb hypervisor_type capabilities:hypervisor_type opt capabilities:opt gpu"
    " nosuch capabilities:nosuch capabilities hw:cpu_policy capabilities:cpu_info:arch hw:maxphysaddr_bits"
    " capabilities:cpu_info:features capabilities:cpu_info:topology:cores capabilities:cpu_info:topology:cores:x"
    " capabilities:a:b capabilities:free_ram_mb:x"
    " capabilities:stats:opt capabilities:cpu_info host capabilities:nodename capabilities:service:disabled"
    " capabilities: ram_allocation_ratio capabilities:supported_instances capabilities:numa_topology pci_stats"
).split()
IN_GROUPS = {"instance_group": made.GROUPS, "instance_uuid": st.sampled_from([None, "u1", "u9"])}
UUIDS = ["u1", "u2", "u9", ""]

VARIED = {
    "AggregateCoreFilter": Varied(CPUS, "cpu_allocation_ratio", SIZES),
    "AggregateDiskFilter": Varied(DISK, "disk_allocation_ratio", SIZES),
    "AggregateImagePropertiesIsolation": Varied(
        keys="os_distro hw_architecture architecture hw_boot_menu hw_cpu_cores",
        spec={"image": st.none() | made.IMAGE_PROPERTIES},
        options={
            "aggregate_image_properties_isolation_namespace": st.sampled_from([None, None, "", "os", "hw"]),
            "aggregate_image_properties_isolation_separator": st.sampled_from([".", "_"]),
        },
    ),
    "AggregateInstanceExtraSpecsFilter": Varied(
        keys="ssd n b:c",
        spec={"extra_specs": made.extra_specs(["ssd", "n", f"{SCOPED}:n", f"{SCOPED}:b:c", "a:b:c", "hw:x", "gone"])},
    ),
    "AggregateIoOpsFilter": Varied(
        "num_io_ops", "max_io_ops_per_host", options={"max_io_ops_per_host": st.integers(0, 9)}
    ),
    "AggregateMultiTenancyIsolation": Varied(
        keys="filter_tenant_id filter_tenant_id2 filter_tenant_idX",
        spec={"project_id": st.sampled_from([None, "p1", "p2", "P1", ""])},
    ),
    "AggregateNumInstancesFilter": Varied(
        "num_instances", "max_instances_per_host", options={"max_instances_per_host": st.sampled_from([1, 10, 50])}
    ),
    "AggregateRamFilter": Varied(MEMORY, "ram_allocation_ratio", SIZES),
    "AggregateTypeAffinityFilter": Varied(
        keys="instance_type", spec={"name": st.sampled_from(["m1", "m2", "M1", ""])}
    ),
    "AllHostsFilter": Varied(spec=ANY_SPEC),
    "AvailabilityZoneFilter": Varied(keys="availability_zone", spec=ANY_SPEC),
    "ComputeCapabilitiesFilter": Varied(
        "free_ram_mb hypervisor_type stats cpu_info service ram_allocation_ratio supported_instances",
        spec={"extra_specs": made.extra_specs(CAPABILITIES)},
    ),
    "ComputeFilter": Varied("service", spec=ANY_SPEC),
    "CoreFilter": Varied(CPUS, spec=ANY_SPEC),
    "DifferentHostFilter": Varied("instances", spec={"scheduler_hints": made.hints("different_host", UUIDS)}),
    "DiskFilter": Varied(DISK, spec=SIZES),
    "ExactCoreFilter": Varied("vcpus_total vcpus_used", spec=SIZES),
    "ExactDiskFilter": Varied("free_disk_mb", spec=SIZES),
    "ExactRamFilter": Varied("free_ram_mb", spec=SIZES),
    "GroupAffinityFilter": Varied("instances", spec=IN_GROUPS),
    "GroupAntiAffinityFilter": Varied("instances", spec=IN_GROUPS),
    "ImagePropertiesFilter": Varied(
        "supported_instances hypervisor_version cpu_info",
        spec={"image": st.none() | made.IMAGE_PROPERTIES},
        options={"image_properties_default_architecture": st.sampled_from([None, None, "x86_64", "aarch64"])},
    ),
    "IoOpsFilter": Varied("num_io_ops", options={"max_io_ops_per_host": st.integers(0, 9)}),
    "IsolatedHostsFilter": Varied(
        "num_instances",
        spec={"image": st.sampled_from([None, Image(), Image(id="A"), Image(id="B")])},
        options={
            "isolated_images": st.sampled_from([(), ("A",), ("a", "A")]),
            "isolated_hosts": st.sampled_from([(), ("host0",), ("HOST0", "host1")]),
            "restrict_isolated_hosts_to_isolated_images": st.booleans(),
        },
    ),
    "JsonFilter": Varied(
        "free_ram_mb hypervisor_type stats service supported_instances num_io_ops",
        spec={
            "scheduler_hints": made.rarely(
                st.sampled_from([{}, {"query": []}, {"query": ["[]", "[]"]}]),
                else_=made.QUERIES.map(lambda query: {"query": query}),
            )
        },
    ),
    "MetricsFilter": Varied(
        "metrics",
        options={
            "weight_setting": st.lists(st.sampled_from(["a=1", "b=-2", "a=x", "a", "=1", "a=1=2", "A=nan"])).map(
                tuple
            )
        },
    ),
    "NUMATopologyFilter": Varied(
        "numa pci_pools allocation_candidates cpu_allocation_ratio ram_allocation_ratio", spec=made.numa_specs()
    ),
    "NumInstancesFilter": Varied(
        "num_instances", options={"max_instances_per_host": st.sampled_from([1, 2, 10, 50])}
    ),
    "PciPassthroughFilter": Varied("pci_pools allocation_candidates", spec={"pci_requests": made.PCI_REQUESTS}),
    "RamFilter": Varied(MEMORY, spec=SIZES),
    "RetryFilter": Varied("num_instances", spec=ANY_SPEC),
    "SameHostFilter": Varied("instances", spec={"scheduler_hints": made.hints("same_host", UUIDS)}),
    "ServerGroupAffinityFilter": Varied("instances", spec=IN_GROUPS),
    "ServerGroupAntiAffinityFilter": Varied("instances", spec=IN_GROUPS),
    "SimpleCIDRAffinityFilter": Varied(
        "host_ip",
        spec={
            "scheduler_hints": st.fixed_dictionaries(
                {},
                optional={
                    "build_near_host_ip": st.sampled_from(
                        [*made.ADDRESSES, "junk", "", [], ["10.4.7.1", "10.4.7.2"], "10.4.7.9/24"]
                    ),
                    "cidr": st.sampled_from(["/24", "/16", "/8", "/64", "24", "/33", "", [], "/255.255.0.0", "/x"]),
                },
            )
        },
    ),
    "TrustedFilter": Varied(
        "trust_level",
        spec={
            "extra_specs": st.fixed_dictionaries(
                {},
                optional={"trust:trusted_host": st.sampled_from(["trusted", "untrusted", "unknown", "", "Trusted"])},
            )
        },
    ),
    "TypeAffinityFilter": Varied("instances", spec={"id": st.sampled_from([3, 4, None, "3"])}),
}


def expected(name, table, spec, options):
    """What the loop says of each host: true, false, or the error with which nova fails there."""
    if name in plain.FILTERS:
        return [bool(plain.FILTERS[name](host, spec)) for host in plain.plain_hosts(table)]
    answers = []
    for host in table.in_the_running():
        try:
            answers.append(bool(plain_filters.FILTERS[name](host, spec, options)))
        except Raises as error:
            answers.append(error)
    return answers


def asked(rule, table, spec):
    """The filter's own answers, or the error with which it fails."""
    try:
        return rule.mask(table.in_the_running(), spec).tolist()
    except RuleError as error:
        return error


@pytest.mark.parametrize("name", sorted(VARIED))
def test_the_mask_is_what_the_plain_loop_says_host_by_host(name):
    varied, plugin, seen = VARIED[name], BY_NAME[name], set()

    @settings(max_examples=200, deadline=None, database=None)
    @given(table=varied.tables(), spec=varied.specs(), values=st.fixed_dictionaries(varied.options))
    def compare(table, spec, values):
        options = plugin.Options(**values) if plugin.Options else None
        answers, found = expected(name, table, spec, options), asked(plugin(options), table, spec)
        errors = {str(each) for each in answers if isinstance(each, Raises)}
        seen.update(map(str, answers))
        event("raises" if errors else "rejects" if False in answers else "passes all")
        if isinstance(found, RuleError):
            assert found.nova_type in errors  # which host is asked first is nobody's promise
            return
        assert not [each for each in answers if isinstance(each, Raises) and not isinstance(each, Chance)]
        assert found == [True if isinstance(each, Chance) else each for each in answers]
        assert plugin(options).applies_to(spec) or all(found), "it says that it has nothing to do"

    compare()
    assert seen >= {"True", "False"} or name == "AllHostsFilter", "what is generated says little"


def test_every_registered_filter_has_a_plain_loop_and_is_compared_with_it():
    names = {each.__name__ for each in FILTERS}
    assert names - set(LOOPS) == set(), "write the rule as a plain loop in tests/parity/plain_filters.py"
    assert names - set(VARIED) == set(), "say in VARIED what its hosts and requests vary in"
    assert (set(LOOPS) | set(VARIED)) - names == set()
