# SPDX-License-Identifier: Apache-2.0
"""ComputeCapabilitiesFilter: spec/filters.md 5.10."""

import json

import pytest

from roost.errors import RuleError
from roost.filters.base import applies_to_rebuild
from roost.filters.compute_capabilities import ComputeCapabilitiesFilter
from roost.testing import make_hosts, make_spec

CPU = json.dumps(
    {"arch": "x86_64", "features": ["sse", "avx2"], "topology": {"cores": 8}, "maxphysaddr": {"bits": 52}}
)


def answer(key, requirement, **columns):
    hosts = make_hosts(1, **columns)
    return ComputeCapabilitiesFilter().mask(hosts, make_spec(extra_specs={key: requirement})).tolist()


@pytest.mark.parametrize(
    ("key", "requirement", "host", "passes"),
    [
        pytest.param("capabilities:hypervisor_type", "QEMU", {"hypervisor_type": "QEMU"}, True, id="in its scope"),
        pytest.param("hypervisor_type", "s== QEMU", {"hypervisor_type": "QEMU"}, True, id="without scope"),
        pytest.param("hypervisor_type", "x", {"hypervisor_type": None}, False, id="an attribute that is not set"),
        pytest.param("nosuch", "x", {}, True, id="without scope, and no attribute"),
        pytest.param("capabilities:nosuch", "x", {}, False, id="in its scope, and no attribute"),
        pytest.param("capabilities:opt", "= 1", {"stats": {"opt": 2}}, True, id="in stats"),
        pytest.param("hw:cpu_policy", "dedicated", {}, True, id="another scope"),
        pytest.param("capabilities:cpu_info:arch", "x86_64", {"cpu_info": CPU}, True, id="inside JSON text"),
        pytest.param("capabilities:cpu_info:arch", "x86_64", {"cpu_info": "bad{"}, False, id="broken JSON"),
        pytest.param(
            "capabilities:cpu_info:features", "<in> avx", {"cpu_info": CPU}, True, id="part of a list's text"
        ),
        pytest.param("capabilities:cpu_info:topology:cores", ">= 4", {"cpu_info": CPU}, True, id="deeper"),
        pytest.param("capabilities:cpu_info:topology:cores:x", "1", {"cpu_info": CPU}, False, id="inside a number"),
        pytest.param("free_ram_mb", ">= 1000", {"free_ram_mb": 512}, False, id="an attribute without scope counts"),
        pytest.param("vcpus_used", "0", {"vcpus_used": 0}, True, id="0 is a value"),
        pytest.param("hw:maxphysaddr_bits", "46", {"cpu_info": CPU}, True, id="52 address bits do"),
        pytest.param("hw:maxphysaddr_bits", "53", {"cpu_info": CPU}, False, id="52 address bits do not"),
        pytest.param("hw:maxphysaddr_bits", "46", {"cpu_info": None}, False, id="address bits unknown"),
        pytest.param("capabilities", "x", {}, True, id="the scope alone is a name like others"),
    ],
)
def test_worked_examples(key, requirement, host, passes):
    assert answer(key, requirement, **host) == [passes]


@pytest.mark.parametrize(
    ("key", "requirement", "host", "passes"),
    [
        pytest.param("opt", "= 3", {"stats": {"opt": "2"}}, False, id="an entry of stats without scope counts"),
        pytest.param("capabilities:stats:opt", "2", {"stats": {"opt": 2}}, True, id="stats by name"),
        pytest.param("capabilities:cpu_info", CPU, {"cpu_info": CPU}, True, id="the whole text"),
        pytest.param("capabilities:cpu_info:nosuch", "1", {"cpu_info": CPU}, False, id="no such key"),
        pytest.param("capabilities:cpu_info:arch", "x86_64", {"cpu_info": {"arch": "x86_64"}}, True, id="a mapping"),
        pytest.param("capabilities:opt:a", "1", {"stats": {"opt": '{"a": 1}'}}, True, id="JSON text in stats"),
        pytest.param("capabilities:service:disabled", "False", {}, True, id="a truth value as Python writes it"),
        pytest.param(
            "capabilities:supported_instances",
            "<in> kvm",
            {"supported_instances": [[["x86_64", "kvm", "hvm"]]]},
            True,
            id="a list as Python writes it",
        ),
        pytest.param("capabilities:host", "host1", {}, True, id="the host's own name"),
        pytest.param("host", "s!= host1", {}, False, id="the host's own name without scope"),
        pytest.param("capabilities:", "x", {}, False, id="nothing named"),
        pytest.param("capabilities:free_ram_mb:x", ">= 1", {"free_ram_mb": 512}, False, id="inside an attribute"),
        pytest.param("ram_allocation_ratio", "== 1.5", {"ram_allocation_ratio": 1.5}, True, id="a real number"),
        pytest.param("ram_allocation_ratio", "1.5", {"ram_allocation_ratio": 1.5}, True, id="its text"),
        pytest.param(
            "total_usable_ram_mb", "<or> 1024 <or> 2048", {"total_usable_ram_mb": 2048}, True, id="its text, or"
        ),
    ],
)
def test_further_paths(key, requirement, host, passes):
    assert answer(key, requirement, **host) == [passes]


@pytest.mark.parametrize(
    ("key", "requirement", "host", "nova_type"),
    [
        pytest.param(
            "capabilities:free_ram_mb", ">= abc", {"free_ram_mb": 512}, "ValueError", id="asks for no number"
        ),
        pytest.param("capabilities:hypervisor_type", ">= 4", {}, "ValueError", id="the host has no number"),
        pytest.param("capabilities:hypervisor_type", "<or>", {}, "IndexError", id="no alternative"),
        pytest.param("hw:maxphysaddr_bits", "many", {"cpu_info": CPU}, "ValueError", id="address bits that are none"),
    ],
)
def test_a_requirement_that_cannot_be_judged_fails_the_request(key, requirement, host, nova_type):
    with pytest.raises(RuleError) as caught:
        answer(key, requirement, **host)
    assert caught.value.nova_type == nova_type


def test_a_host_that_fails_one_requirement_is_not_asked_for_the_next():
    extra_specs = {"capabilities:hypervisor_type": "KVM", "capabilities:free_ram_mb": ">= abc"}
    hosts = make_hosts(hypervisor_type=["QEMU", "QEMU"])
    assert ComputeCapabilitiesFilter().mask(hosts, make_spec(extra_specs=extra_specs)).tolist() == [False, False]


def test_all_requirements_must_hold():
    extra_specs = {"capabilities:free_ram_mb": ">= 1000", "hypervisor_type": "QEMU", "other": "x"}
    hosts = make_hosts(free_ram_mb=[512, 1024, 2048], hypervisor_type=["QEMU", "QEMU", "KVM"])
    mask = ComputeCapabilitiesFilter().mask(hosts, make_spec(extra_specs=extra_specs))
    assert mask.tolist() == [False, True, False]


def test_what_stands_after_the_address_bits_counts_too():
    extra_specs = {"hw:maxphysaddr_bits": "46", "hypervisor_type": "KVM"}
    hosts = make_hosts(hypervisor_type=["KVM", "QEMU"], cpu_info=CPU)
    assert ComputeCapabilitiesFilter().mask(hosts, make_spec(extra_specs=extra_specs)).tolist() == [True, False]


def test_stats_of_one_host_do_not_count_for_another():
    hosts = make_hosts(stats=[{"gpu": "2"}, {}, {"gpu": "0"}])
    rule = ComputeCapabilitiesFilter()
    assert rule.mask(hosts, make_spec(extra_specs={"gpu": ">= 1"})).tolist() == [True, True, False]
    assert rule.mask(hosts, make_spec(extra_specs={"capabilities:gpu": ">= 1"})).tolist() == [True, False, False]


def test_without_extra_specs_it_has_nothing_to_do():
    assert not ComputeCapabilitiesFilter().applies_to(make_spec())
    assert ComputeCapabilitiesFilter().mask(make_hosts(2), make_spec()).tolist() == [True, True]


def test_it_runs_once_per_request_and_not_on_rebuild():
    assert not ComputeCapabilitiesFilter().run_filter_for_index(1)
    assert not applies_to_rebuild(ComputeCapabilitiesFilter())


@pytest.mark.parametrize(
    ("extra_specs", "reason"),
    [
        ({"capabilities:free_ram_mb": ">= 1000"}, "free_ram_mb '>= 1000' asked; the host has 512"),
        ({"capabilities:gpu": ">= 1"}, "gpu '>= 1' asked; the host does not report it"),
        ({"hw:maxphysaddr_bits": "60"}, "cpu_info:maxphysaddr:bits '>= 60' asked; the host has 52"),
    ],
)
def test_the_reason_names_the_requirement_and_what_the_host_has(extra_specs, reason):
    (host,) = make_hosts(1, free_ram_mb=512, cpu_info=CPU)
    assert ComputeCapabilitiesFilter().reason(host, make_spec(extra_specs=extra_specs)) == reason
