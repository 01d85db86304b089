import pytest

from roost.errors import FieldError, UnknownName
from roost.model import Flavor
from roost.model.remedy import (
    HostChange,
    RequestChange,
    apply_all_to_request,
    apply_to_request,
    disk_changes,
    exact_disk_changes,
)
from roost.testing import make_spec


def changed(spec, field, value):
    return apply_to_request(spec, RequestChange(field, value))


def test_a_part_of_the_flavor_is_another():
    spec = make_spec(memory_mb=4096)
    assert changed(spec, "flavor.memory_mb", 1024).flavor.memory_mb == 1024
    assert spec.flavor.memory_mb == 4096


def test_an_extra_spec_is_set_and_left_out_though_its_key_has_dots():
    spec = make_spec(extra_specs={"hw:numa_cpus.0": "0,1", "a": "1"})
    assert changed(spec, "flavor.extra_specs.hw:numa_cpus.0", None).flavor.extra_specs == {"a": "1"}
    assert changed(spec, "flavor.extra_specs.b", "2").flavor.extra_specs["b"] == "2"


def test_an_image_property_is_parsed_like_any_other():
    spec = make_spec(image={"hw_architecture": "x86_64", "hw_numa_nodes": "2"})
    assert changed(spec, "image.properties.hw_architecture", "aarch64").image.properties.hw_architecture == "aarch64"
    assert dict(changed(spec, "image.properties.hw_numa_nodes", None).image.properties) == {
        "hw_architecture": "x86_64"
    }


def test_a_part_without_a_value_is_that_of_an_empty_request():
    spec = make_spec(availability_zone="az-1", ignore_hosts=("a",), scheduler_hints={"query": "x"})
    assert changed(spec, "availability_zone", None).availability_zone is None
    assert changed(spec, "ignore_hosts", ["b"]).ignore_hosts == ("b",)
    assert changed(spec, "scheduler_hints.query", None).scheduler_hints == {}


def test_changes_of_hosts_are_left_to_others():
    spec = make_spec()
    changes = [HostChange("a", "free_ram_mb", 1), RequestChange("flavor.vcpus", 7)]
    assert apply_all_to_request(spec, changes).flavor.vcpus == 7


@pytest.mark.parametrize("field", ["flavour.vcpus", "flavor.vcpu", "availability_zone.name", "instance_group.rules"])
def test_an_unknown_part_is_refused(field):
    with pytest.raises(UnknownName, match="a request has no"):
        changed(make_spec(), field, 1)


def test_a_value_that_does_not_fit_is_refused():
    with pytest.raises(FieldError, match="vcpus"):
        changed(make_spec(), "flavor.vcpus", "many")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (RequestChange("flavor.memory_mb", 49152), "set flavor.memory_mb to 49152"),
        (RequestChange("flavor.extra_specs.hw:cpu_policy", None), "leave out the extra spec hw:cpu_policy"),
        (RequestChange("image.properties.os_distro", "debian"), "set the image property os_distro to 'debian'"),
        (RequestChange("scheduler_hints.query", None), "leave out the scheduler hint query"),
        (RequestChange("pci_requests", []), "leave out pci_requests"),
    ],
)
def test_a_change_is_a_sentence(change, sentence):
    assert change.sentence == sentence


FLAVOR = Flavor(vcpus=1, memory_mb=512, root_gb=30, ephemeral_gb=5, swap=512)


def disk_after(changes):
    return apply_all_to_request(make_spec(flavor=FLAVOR), changes).flavor.disk_mb


@pytest.mark.parametrize("disk_mb", [0, 511, 512, 1024, 6000, 20480, 36000])
def test_less_disk_is_at_most_what_was_said(disk_mb):
    assert disk_mb - 1024 < disk_after(disk_changes(FLAVOR, disk_mb)) <= disk_mb


@pytest.mark.parametrize("disk_mb", [1, 511, 512, 1024, 6000, 20480, 102400, 102401])
def test_exact_disk_is_exact(disk_mb):
    assert disk_after(exact_disk_changes(FLAVOR, disk_mb)) == disk_mb
