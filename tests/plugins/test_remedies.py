"""Following the remedy of a filter or check makes the request fit: for each, on a host that it alone blocks."""

import pytest
from tests.plugins.remedy_cases import ROOMY, case, check_remedy, filter_case

from docs import _generate
from roost.errors import PluginFailed
from roost.filters.aggregate_extra_specs import AggregateInstanceExtraSpecsFilter
from roost.filters.base import HostFilter
from roost.filters.compute_capabilities import ComputeCapabilitiesFilter
from roost.filters.ram import RamFilter
from roost.hosts import Inventory
from roost.model import Aggregate, Image
from roost.model.remedy import Remedy
from roost.plugins.registry import FILTERS
from roost.scheduler.checks import filter_check
from roost.testing import make_hosts, make_spec

EXAMPLES = _generate.filter_examples()
FAILING = [(name, host) for name, example in EXAMPLES.items() for host in example["fails"]]


@pytest.mark.parametrize(("name", "host"), FAILING)
def test_following_the_remedy_of_a_filter_makes_the_request_fit(name, host):
    assert check_remedy(filter_case(name, host), name).text == EXAMPLES[name]["remedies"][host]


@pytest.mark.parametrize("name", [each.__name__ for each in FILTERS])
def test_every_filter_that_rejects_hosts_has_an_example_of_its_remedy(name):
    assert any(name == each for each, _ in FAILING) or name == "AllHostsFilter"


# --- capacity ---------------------------------------------------------------------------------------


GPU = {"resources": ROOMY | {"VGPU": Inventory(4, max_unit=2)}, "allocations": {"VGPU": 3}}
CAPACITY = {
    "disabled": ("disabled", {"service": {"disabled": True}}, {}, "enable it: roost host enable host1"),
    "busy CPUs": (
        "vcpu",
        {"resources": ROOMY | {"VCPU": Inventory(8, allocation_ratio=2.0)}, "vcpus_total": 8, "vcpus_used": 14},
        {"vcpus": 4},
        "free 2 CPUs on host1, or ask for at most 2",
    ),
    "few CPUs": (
        "vcpu",
        {"resources": ROOMY | {"VCPU": Inventory(8, allocation_ratio=2.0)}, "vcpus_total": 8},
        {"vcpus": 12},
        "ask for at most 8 CPUs",
    ),
    "few CPUs, all busy": (
        "vcpu",
        {"resources": ROOMY | {"VCPU": Inventory(8, allocation_ratio=2.0)}, "vcpus_total": 8, "vcpus_used": 16},
        {"vcpus": 12},
        "free 8 CPUs on host1, and ask for at most 8",
    ),
    "little memory left": (
        "ram",
        {"resources": {}, "vcpus_total": 8, "total_usable_ram_mb": 65536, "free_ram_mb": 49152},
        {"memory_mb": 65536},
        "free 16,384 MiB of memory on host1, or ask for at most 49,152",
    ),
    "memory that a ledger counts": (
        "ram",
        {"resources": {}, "vcpus_total": 8, "total_usable_ram_mb": 4096, "allocations": {"MEMORY_MB": 4096}},
        {"memory_mb": 1024},
        "free 1,024 MiB of memory on host1",
    ),
    "memory of listed instances": (
        "ram",
        {
            "resources": {},
            "vcpus_total": 8,
            "total_usable_ram_mb": 4096,
            "instances": [{"uuid": "a", "resources": {"MEMORY_MB": 3072}}],
        },
        {"memory_mb": 2048},
        "free 1,024 MiB of memory on host1, or ask for at most 1,024",
    ),
    "little disk": (
        "disk",
        {"resources": {}, "vcpus_total": 8, "total_usable_ram_mb": 4096, "total_usable_disk_gb": 20},
        {"root_gb": 30, "ephemeral_gb": 5, "swap": 512},
        "ask for at most 20 GB of disk",
    ),
    "no disk": (
        "disk",
        {"resources": {}, "vcpus_total": 8, "total_usable_ram_mb": 4096},
        {"root_gb": 30},
        "ask for no GB of disk: boot from a volume",
    ),
    "a device of a class that is taken": (
        "VGPU",
        GPU,
        {"extra_specs": {"resources:VGPU": "2"}},
        "free 1 VGPU on host1, or ask for at most 1",
    ),
    "more devices than one instance may take": (
        "VGPU",
        GPU,
        {"extra_specs": {"resources1:VGPU": "1", "resources2:VGPU": "2"}},
        "ask for at most 1 VGPU",
    ),
    "a class that the host has not": (
        "VGPU",
        {},
        {"extra_specs": {"resources:VGPU": "1"}},
        "ask for a flavor without the extra spec resources:VGPU",
    ),
    "an amount between the units": (
        "CUSTOM_SLICE",
        {"resources": ROOMY | {"CUSTOM_SLICE": Inventory(100, step_size=10)}},
        {"extra_specs": {"resources:CUSTOM_SLICE": "25"}},
        "ask for 20 CUSTOM_SLICE",
    ),
    "an amount below the least unit": (
        "CUSTOM_SLICE",
        {"resources": ROOMY | {"CUSTOM_SLICE": Inventory(100, min_unit=15, step_size=10)}},
        {"extra_specs": {"resources:CUSTOM_SLICE": "5"}},
        "ask for 20 CUSTOM_SLICE",
    ),
    "a custom trait": (
        "traits",
        {},
        {"extra_specs": {"trait:CUSTOM_LICENSED": "required"}},
        "give host1 the trait CUSTOM_LICENSED, or ask for a flavor without the extra spec trait:CUSTOM_LICENSED",
    ),
    "a trait of the hardware": (
        "traits",
        {},
        {"extra_specs": {"trait:HW_CPU_X86_AVX": "required"}},
        "give host1 the trait HW_CPU_X86_AVX, or ask for a flavor without the extra spec trait:HW_CPU_X86_AVX",
    ),
    "a forbidden trait": (
        "traits",
        {"traits": {"CUSTOM_OLD"}},
        {"extra_specs": {"trait:CUSTOM_OLD": "forbidden"}},
        "take the trait CUSTOM_OLD from host1, or ask for a flavor without the extra spec trait:CUSTOM_OLD",
    ),
}


@pytest.mark.parametrize("name", CAPACITY)
def test_following_the_remedy_of_a_capacity_check_makes_the_request_fit(name):
    check, host, request, text = CAPACITY[name]
    assert check_remedy(case(host, request), check).text == text


# --- prefilters -------------------------------------------------------------------------------------


RED = Aggregate("red", {"filter_tenant_id": "p1"}, uuid="u-red", id=1)
AZ = Aggregate("north", {"availability_zone": "az-1"}, uuid="u-north", id=2)
SOUTH = Aggregate("south", {"availability_zone": "az-2"}, uuid="u-south", id=3)
TPM = Aggregate("secure", {"trait:CUSTOM_SECURE": "required"}, id=4)


def scheduler_options(**switches):
    return {"scheduler": switches}


PREFILTERS = {
    "requested_destination": (
        {},
        {"requested_destination": {"host": "other"}},
        {},
        (),
        "ask for host host1, or for no particular host",
    ),
    "ignore_hosts": ({}, {"ignore_hosts": ["HOST1", "host2"]}, {}, (), "take host1 out of ignore_hosts"),
    "force_hosts": ({}, {"force_hosts": ["other"]}, {}, (), "add host1 to force_hosts, or force no host"),
    "force_nodes": ({}, {"force_nodes": ["other"]}, {}, (), "add host1 to force_nodes, or force no node"),
    "requested_aggregates": (
        {},
        {"requested_destination": {"aggregates": ["u-red,u-none", "u-north"]}},
        {},
        (RED, AZ),
        "put host1 into aggregates red, north, or ask for hosts in other aggregates",
    ),
    "forbidden_aggregates": (
        {"aggregates": [RED, AZ]},
        {"requested_destination": {"forbidden_aggregates": ["u-red"]}},
        {},
        (),
        "take host1 out of aggregate red, or do not forbid them",
    ),
    "tenant_aggregate": (
        {},
        {"project_id": "p1"},
        scheduler_options(limit_tenants_to_placement_aggregate=True),
        (RED,),
        "put host1 into aggregate red",
    ),
    "availability_zone": (
        {"aggregates": [AZ]},
        {"availability_zone": "az-2"},
        {},
        (SOUTH,),
        "ask for zone az-1, or for no zone",
    ),
    "image_type": (
        {},
        {"image": Image(id="i", disk_format="qcow2")},
        scheduler_options(query_placement_for_image_type_support=True),
        (),
        "give host1 the trait COMPUTE_IMAGE_TYPE_QCOW2, or use a flavor and an image that do not need this",
    ),
    "isolated_aggregates": (
        {"aggregates": [TPM]},
        {},
        scheduler_options(enable_isolated_aggregate_filtering=True),
        (),
        "ask for a flavor with trait:CUSTOM_SECURE=required, or take host1 out of aggregate secure",
    ),
    "virtio_sound": (
        {},
        {"extra_specs": {"hw:sound_model": "virtio"}},
        {},
        (),
        "give host1 the trait COMPUTE_SOUND_MODEL_VIRTIO, or use a flavor and an image that do not need this",
    ),
}


@pytest.mark.parametrize("check", PREFILTERS)
def test_following_the_remedy_of_a_prefilter_makes_the_request_fit(check):
    host, request, options, known, text = PREFILTERS[check]
    assert check_remedy(case(host, request, options, known), check).text == text


def test_a_project_that_no_aggregate_names_needs_one_that_does():
    switches = {"limit_tenants_to_placement_aggregate": True, "placement_aggregate_required_for_tenants": True}
    found = case({"aggregates": [AZ]}, {"project_id": "p2"}, scheduler_options(**switches))
    remedy = check_remedy(found, "tenant_aggregate")
    assert remedy.text == "set filter_tenant_id_p2=p2 in the metadata of aggregate north"


# --- none -------------------------------------------------------------------------------------------


def test_no_remedy_is_invented_for_a_plugin_even_if_it_derives_from_a_built_in_filter():
    class OwnRamFilter(RamFilter):
        pass

    host = next(iter(make_hosts(total_usable_ram_mb=1024, free_ram_mb=0)))
    spec = make_spec(memory_mb=512)
    assert filter_check(RamFilter(), spec).remedy(host)
    assert filter_check(OwnRamFilter(), spec).remedy(host) is None


def test_a_host_without_any_memory_has_no_remedy():
    host = next(iter(make_hosts(total_usable_ram_mb=0)))
    assert RamFilter().remedy(host, make_spec(memory_mb=512)) is None


def plugin_remedy(found):
    class OwnFilter(HostFilter):
        def remedy(self, host, spec):
            return found()

    OwnFilter.remedy.__module__ = OwnFilter.__module__ = "my_filter"
    return filter_check(OwnFilter(), make_spec()).remedy(next(iter(make_hosts())))


def test_a_plugin_may_have_a_remedy_of_its_own():
    assert plugin_remedy(lambda: Remedy("ask its owner")).text == "ask its owner"
    assert plugin_remedy(lambda: None) is None


@pytest.mark.parametrize("found", [lambda: "ask its owner", lambda: {}["missing"]])
def test_a_plugin_whose_remedy_fails_is_named(found):
    with pytest.raises(PluginFailed, match="OwnFilter failed on host host1"):
        plugin_remedy(found)


def test_a_requirement_that_no_metadata_can_meet_has_no_remedy():
    host = next(iter(make_hosts()))
    for requirement in (">= many", "a,b", "<or>", "<in>"):
        spec = make_spec(extra_specs={"speed": requirement})
        assert AggregateInstanceExtraSpecsFilter().remedy(host, spec) is None


def test_a_requirement_that_cannot_be_evaluated_on_the_host_is_left_out_with_those_that_are_not_met():
    host = next(iter(make_hosts(stats={"gpus": "1", "model": "x"})))
    spec = make_spec(extra_specs={"capabilities:gpus": ">= 2", "capabilities:model": ">= 3"})
    remedy = ComputeCapabilitiesFilter().remedy(host, spec)
    assert [each.field for each in remedy.changes] == [
        "flavor.extra_specs.capabilities:gpus",
        "flavor.extra_specs.capabilities:model",
    ]
