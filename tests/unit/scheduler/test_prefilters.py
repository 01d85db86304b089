# SPDX-License-Identifier: Apache-2.0
"""What a request implies before any filter: spec/request-filters.md, every worked example that applies here."""

import random

import numpy as np
import pytest

from roost.errors import NoValidHost, RoostError
from roost.model import Aggregate, Image
from roost.model.remedy import HostChange
from roost.model.resources import (
    accelerator_traits,
    encryption_traits,
    image_metadata_traits,
    image_type_traits,
    packed_ring_traits,
    sound_traits,
    tpm_traits,
)
from roost.questions.explain import explain_request
from roost.scheduler.all_options import read_options
from roost.scheduler.build import build_pipeline
from roost.scheduler.checks import capacity_checks
from roost.scheduler.full_scan import FullScanEngine
from roost.scheduler.incremental.engine import IncrementalEngine
from roost.scheduler.pipeline import Pipeline
from roost.scheduler.prefilters import PrefilterOptions, request_filter_checks
from roost.testing import make_hosts, make_records, make_spec

OFF = PrefilterOptions(query_placement_for_availability_zone=False)
REBUILD = {"_nova_check_type": ["rebuild"]}


def options(**switches):
    """These switches, by nova's names, all others off."""
    return PrefilterOptions(**({"query_placement_for_availability_zone": False} | switches))


def hosts_in(aggregates):
    """One host in each of the aggregates (name -> metadata), and one in none: names are the aggregates'."""
    known = [Aggregate(name, metadata, id=name) for name, metadata in aggregates.items()]
    names = [each.name for each in known]
    return make_hosts(host=[*names, "none"], aggregates=[*([each] for each in known), []])


def asked(spec, table, chosen):
    """Name of each check -> the hosts that pass it."""
    found = {}
    for check in request_filter_checks(spec, table.known_aggregates, chosen):
        assert check.stage == "prefilter"
        found[check.name] = [host.host for host in check.survivors(table.in_the_running())]
    return found


def reasons(spec, table, chosen):
    checks = request_filter_checks(spec, table.known_aggregates, chosen)
    return {host.host: check.reason(host) for check in checks for host in rejected_by(check, table)}


def rejected_by(check, table):
    hosts = table.in_the_running()
    return hosts.take(np.setdiff1d(hosts.rows, check.survivors(hosts).rows))


def refused_as(call, *arguments):
    with pytest.raises(RoostError) as caught:
        call(*arguments)
    return caught.value.nova_type


# --- 2.1 tenant aggregate ----------------------------------------------------------------------------


@pytest.mark.parametrize("is_required", [False, True])
@pytest.mark.parametrize(
    ("aggregates", "confined_to", "when_required"),
    [
        pytest.param({"A": {"filter_tenant_id": "p1"}}, "A", "A", id="one aggregate"),
        pytest.param({"A": {"filter_tenant_id": "p1"}, "B": {"filter_tenant_id3": "p1"}}, "AB", "AB", id="either"),
        pytest.param({"A": {"filter_tenant_id": "p1,p2"}}, None, "", id="no comma lists"),
        pytest.param({"A": {"filter_tenant_id": "p2", "owner": "p1"}}, None, "", id="key and value in one entry"),
        pytest.param({"A": {"owner": "p1"}}, None, "", id="another key"),
        pytest.param({}, None, "", id="no aggregates"),
        pytest.param({"A": {"filter_tenant_id:abc": "p1"}}, "A", "A", id="any key that begins so"),
    ],
)
def test_a_project_is_confined_to_the_aggregates_that_name_it(aggregates, confined_to, when_required, is_required):
    chosen = options(limit_tenants_to_placement_aggregate=True, placement_aggregate_required_for_tenants=is_required)
    expected = when_required if is_required else confined_to
    found = asked(make_spec(project_id="p1"), hosts_in(aggregates), chosen)
    assert found == ({} if expected is None else {"tenant_aggregate": [*expected]})


def test_without_the_switch_no_project_is_confined_however_much_an_aggregate_is_required():
    chosen = options(placement_aggregate_required_for_tenants=True)
    assert asked(make_spec(project_id="p1"), hosts_in({"A": {"filter_tenant_id": "p1"}}), chosen) == {}


def test_a_request_of_nobody_is_named_by_no_aggregate():
    chosen = options(limit_tenants_to_placement_aggregate=True)
    assert asked(make_spec(project_id=None), hosts_in({"A": {"filter_tenant_id": "None"}}), chosen) == {}


def test_the_reason_names_project_and_aggregates():
    table = hosts_in({"A": {"filter_tenant_id": "p1"}, "B": {"filter_tenant_id2": "p1"}})
    chosen = options(limit_tenants_to_placement_aggregate=True, placement_aggregate_required_for_tenants=True)
    assert reasons(make_spec(project_id="p1"), table, chosen) == {"none": "project p1 is confined to A, B"}
    assert reasons(make_spec(project_id="p2"), table, chosen)["none"] == "no aggregate is for project p2"


# --- 2.2 availability zone ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("zone", "aggregates", "confined_to"),
    [
        pytest.param(None, {"A": "az1"}, None, id="no zone asked"),
        pytest.param("az1", {"A": "az1", "B": "az1", "C": "az2"}, "AB", id="one of its aggregates"),
        pytest.param("az9", {"A": "az1"}, None, id="no aggregate bears it"),
        pytest.param("nova", {"A": "az1"}, None, id="the default zone"),
        pytest.param("az1", {"A": "az1,az2"}, None, id="no comma lists"),
    ],
)
def test_a_request_is_confined_to_the_aggregates_of_its_zone(zone, aggregates, confined_to):
    table = hosts_in({name: {"availability_zone": value} for name, value in aggregates.items()})
    found = asked(make_spec(availability_zone=zone), table, PrefilterOptions())
    assert found == ({} if confined_to is None else {"availability_zone": [*confined_to]})


def test_zones_are_on_unless_switched_off():
    table = hosts_in({"A": {"availability_zone": "az1"}})
    assert asked(make_spec(availability_zone="az1"), table, OFF) == {}


def test_an_aggregate_without_hosts_confines_too():
    table = make_hosts(host=["a"])
    table.known_aggregates = (Aggregate("A", {"availability_zone": "az1"}),)
    assert asked(make_spec(availability_zone="az1"), table, PrefilterOptions()) == {"availability_zone": []}


def test_the_reason_names_the_zone_asked_and_the_zones_of_the_host():
    table = hosts_in({"A": {"availability_zone": "az1"}, "B": {"availability_zone": "az2"}})
    assert reasons(make_spec(availability_zone="az1"), table, PrefilterOptions()) == {
        "B": "zone az1 asked; the host is in az2",
        "none": "zone az1 asked; the host is in none",
    }


# --- 2.3 image type support --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("disk_format", "trait"),
    [("qcow2", "COMPUTE_IMAGE_TYPE_QCOW2"), ("RAW", "COMPUTE_IMAGE_TYPE_RAW"), ("zzz", None)],
)
def test_a_disk_format_needs_a_host_that_knows_it(disk_format, trait):
    spec = make_spec(image=Image(disk_format=disk_format))
    assert image_type_traits(spec) == ({trait} if trait else set())


@pytest.mark.parametrize("suffix", "AKI AMI ARI ISO QCOW2 RAW VDI VHD VHDX VMDK PLOOP".split())
def test_every_standard_disk_format_has_a_trait(suffix):
    spec = make_spec(image=Image(disk_format=suffix.lower()))
    assert image_type_traits(spec) == {f"COMPUTE_IMAGE_TYPE_{suffix}"}


@pytest.mark.parametrize("spec", [make_spec(image=Image(disk_format="qcow2"), is_bfv=True), make_spec()])
def test_booting_from_a_volume_asks_for_no_disk_format(spec):
    assert image_type_traits(spec) == set()


def test_an_image_without_disk_format_fails_the_request():
    assert refused_as(image_type_traits, make_spec(image=Image())) == "AttributeError"


def test_disk_formats_count_only_when_switched_on():
    table = make_hosts(host=["a", "b"], traits=[["COMPUTE_IMAGE_TYPE_QCOW2"], []])
    spec = make_spec(image=Image(disk_format="qcow2"))
    assert asked(spec, table, OFF) == {}
    assert asked(spec, table, options(query_placement_for_image_type_support=True)) == {"image_type": ["a"]}


# --- 2.4 compute status: a step of capacity here -----------------------------------------------------


def test_disabled_hosts_are_left_out_before_any_filter():
    table = make_hosts(host=["a", "b"], service=[{}, {"disabled": True, "disabled_reason": "new fans"}])
    check = next(capacity_checks(make_spec()))
    assert (check.stage, check.name) == ("capacity", "disabled")
    assert [host.host for host in check.survivors(table.in_the_running())] == ["a"]
    (rejected,) = rejected_by(check, table)
    assert check.reason(rejected) == "the host is disabled: new fans"


def test_a_host_with_the_trait_of_disabled_ones_is_left_out_though_its_service_is_enabled():
    """D24: nova forbids the trait in every request that takes room."""
    table = make_hosts(host=["a", "b"], traits=[[], ["COMPUTE_STATUS_DISABLED", "CUSTOM_SSD"]])
    check = next(capacity_checks(make_spec()))
    assert [host.host for host in check.survivors(table.in_the_running())] == ["a"]
    (rejected,) = rejected_by(check, table)
    reason = "the host has the trait COMPUTE_STATUS_DISABLED: it counts as disabled although its service is enabled"
    assert check.reason(rejected) == reason
    remedy = check.remedy(rejected)
    assert remedy.text.startswith("take the trait COMPUTE_STATUS_DISABLED from b")
    assert remedy.changes == (HostChange("b", "traits", ["CUSTOM_SSD"]),)


def test_a_host_that_is_disabled_in_both_places_is_enabled_in_both():
    """D24: a remedy that the host would not pass with is none."""
    traits = [["COMPUTE_STATUS_DISABLED"]]
    table = make_hosts(host=["a"], traits=traits, service=[{"disabled": True, "disabled_reason": "new fans"}])
    check = next(capacity_checks(make_spec()))
    (host,) = table.in_the_running()
    assert check.reason(host) == "the host is disabled: new fans"
    assert {(each.field, str(each.value)) for each in check.remedy(host).changes} == {
        ("service.disabled", "False"),
        ("traits", "[]"),
    }


def test_an_explanation_counts_hosts_with_the_trait_among_the_disabled_ones():
    """D24: they were neither disabled nor down in the sentence."""
    table = make_hosts(host=["a", "b"], traits=[[], ["COMPUTE_STATUS_DISABLED"]], service=[{"disabled": True}, {}])
    found = explain_request(build_pipeline(read_options()), table, make_spec(vcpus=0))
    (miss,) = [each for each in found.misses if each.subject == "disabled"]
    assert miss.text == "2 hosts disabled in all; of a: the host is disabled"


@pytest.mark.parametrize("engine", [FullScanEngine, IncrementalEngine])
def test_the_trait_of_disabled_hosts_counts_from_when_it_is_given_until_it_is_taken(engine):
    """D24: also where the answer is cached."""
    memory = {"total_usable_ram_mb": 90000, "free_ram_mb": [90000, 40000]}
    columns = {"host": ["a", "b"], "vcpus_total": [800, 8], **memory}
    table, pipeline = make_hosts(**columns), build_pipeline(read_options()).fresh(engine)

    def choose(*traits):
        table.update(0, make_records(**columns, traits=[frozenset(traits)] * 2)[0])
        spec, randomness = make_spec(memory_mb=512), random.Random(1)
        places = [pipeline.place(table, spec, [None], randomness=randomness, clock=lambda: 0) for _ in range(3)]
        return {each.selections[0].host for each in places}

    assert [choose(), choose("COMPUTE_STATUS_DISABLED"), choose()] == [{"a"}, {"b"}, {"a"}]


# --- 2.5 isolated aggregates -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("required", "aggregates", "left_out"),
    [
        pytest.param([], {"A": {"trait:T1": "required"}}, "A", id="does not ask for it"),
        pytest.param(["T1"], {"A": {"trait:T1": "required"}}, "", id="asks for it"),
        pytest.param(["T1"], {"A": {"trait:T1": "required", "trait:T2": "required"}}, "A", id="asks for one of two"),
        pytest.param(
            ["T1", "T2", "T3"], {"A": {"trait:T1": "required", "trait:T2": "required"}}, "", id="asks for more"
        ),
        pytest.param([], {"A": {"trait:T1": "forbidden"}, "B": {"x": "required"}}, "", id="nothing isolates"),
    ],
)
@pytest.mark.parametrize("source", ["flavor", "numbered", "image"])
def test_requests_are_kept_off_aggregates_with_traits_they_do_not_ask_for(required, aggregates, left_out, source):
    prefix = {"flavor": "trait:", "numbered": "trait1:", "image": "trait:"}[source]
    wanted = {f"{prefix}{trait}": "required" for trait in required}
    spec = make_spec(image=wanted) if source == "image" else make_spec(extra_specs=wanted)
    found = asked(spec, hosts_in(aggregates), options(enable_isolated_aggregate_filtering=True))
    kept = [name for name in (*aggregates, "none") if name not in left_out]
    assert found == ({"isolated_aggregates": kept} if left_out else {})


def test_traits_that_only_follow_from_the_request_open_no_isolated_aggregate():
    table = hosts_in({"A": {"trait:COMPUTE_ACCELERATORS": "required"}})
    spec = make_spec(extra_specs={"accel:device_profile": "gpu"})
    found = asked(spec, table, options(enable_isolated_aggregate_filtering=True))
    assert found["isolated_aggregates"] == ["none"]


def test_aggregates_isolate_only_when_switched_on():
    assert asked(make_spec(), hosts_in({"A": {"trait:T1": "required"}}), OFF) == {}


def test_the_reason_names_the_traits_that_isolate():
    table = hosts_in({"A": {"trait:T1": "required", "trait:T2": "required"}})
    chosen = options(enable_isolated_aggregate_filtering=True)
    spec = make_spec(extra_specs={"trait:T1": "required"})
    assert reasons(spec, table, chosen) == {"A": "its aggregates are for requests of T2"}


# --- 2.6 image metadata ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("image", "traits"),
    [
        pytest.param(
            {"hw_disk_bus": "virtio", "hw_vif_model": "spapr-vlan", "hw_video_model": "none"},
            {
                "COMPUTE_STORAGE_BUS_VIRTIO",
                "COMPUTE_NET_VIF_MODEL_SPAPR_VLAN",
                "COMPUTE_GRAPHICS_MODEL_NONE",
            },
            id="three properties",
        ),
        pytest.param(
            {"hw_disk_bus": "virtio", "hw_architecture": "amd64"},
            {"COMPUTE_STORAGE_BUS_VIRTIO", "HW_ARCH_X86_64"},
            id="another spelling of x86_64",
        ),
        pytest.param({"hw_vif_model": "VirtualE1000"}, {"COMPUTE_NET_VIF_MODEL_E1000"}, id="a model of VMware"),
        pytest.param(
            {"hw_disk_bus": "virtio", "hw_viommu_model": "virtio"},
            {"COMPUTE_STORAGE_BUS_VIRTIO", "COMPUTE_VIOMMU_MODEL_VIRTIO"},
            id="nova's defect mended: the vIOMMU has a trait",
        ),
        pytest.param(
            {"hw_disk_bus": "virtio", "hw_architecture": "armv7l"},
            {"COMPUTE_STORAGE_BUS_VIRTIO", "HW_ARCH_ARMV7"},
            id="nova's defect mended: armv7l has a trait",
        ),
        pytest.param(
            {"hw_architecture": "x86_64", "hw_emulation_architecture": "aarch64"},
            {"HW_ARCH_X86_64", "COMPUTE_ARCH_AARCH64"},
            id="both architectures",
        ),
        pytest.param(
            {"hw_disk_bus": "virtio", "hw_emulation_architecture": "sparc"},
            set(),
            id="one without trait: none at all",
        ),
        pytest.param(
            {"hw_cdrom_bus": "ide", "hw_disk_bus": "scsi"},
            {"COMPUTE_STORAGE_BUS_IDE", "COMPUTE_STORAGE_BUS_SCSI"},
            id="two buses",
        ),
        pytest.param({"os_distro": "debian"}, set(), id="no such property"),
        pytest.param(None, set(), id="no image"),
    ],
)
def test_properties_of_the_image_become_traits(image, traits):
    assert image_metadata_traits(make_spec(image=image)) == traits


@pytest.mark.parametrize("model", ["intel", "smmuv3", "virtio", "auto"])
def test_every_viommu_model_has_a_trait(model):
    spec = make_spec(image={"hw_viommu_model": model})
    assert image_metadata_traits(spec) == {f"COMPUTE_VIOMMU_MODEL_{model.upper()}"}


def test_image_metadata_count_only_when_switched_on():
    table = make_hosts(host=["a", "b"], traits=[["COMPUTE_STORAGE_BUS_VIRTIO"], []])
    spec = make_spec(image={"hw_disk_bus": "virtio"})
    assert asked(spec, table, OFF) == {}
    chosen = options(image_metadata_prefilter=True)
    assert asked(spec, table, chosen) == {"image_metadata": ["a"]}
    assert reasons(spec, table, chosen) == {"b": "lacks COMPUTE_STORAGE_BUS_VIRTIO"}


# --- 2.7, 2.8, 2.11, 2.12, 2.13: always on -----------------------------------------------------------


@pytest.mark.parametrize(("profile", "traits"), [("gpu", {"COMPUTE_ACCELERATORS"}), ("", set()), (None, set())])
def test_a_device_profile_needs_a_host_with_accelerators(profile, traits):
    extra_specs = {} if profile is None else {"accel:device_profile": profile}
    assert accelerator_traits(make_spec(extra_specs=extra_specs)) == traits


def spec_of(key, flavor, image, **more):
    extra_specs = {} if flavor is None else {f"hw:{key}": flavor}
    return make_spec(extra_specs=extra_specs | more, image={} if image is None else {f"hw_{key}": image})


@pytest.mark.parametrize(
    ("flavor", "image", "is_asked"),
    [
        ("true", None, True),
        (None, "yes", True),
        ("bogus", None, False),
        (None, None, False),
        ("on", "true", True),
        ("0", "false", False),
    ],
)
def test_a_packed_virtqueue_may_be_asked_for_by_either(flavor, image, is_asked):
    traits = packed_ring_traits(spec_of("virtio_packed_ring", flavor, image))
    assert traits == ({"COMPUTE_NET_VIRTIO_PACKED"} if is_asked else set())


@pytest.mark.parametrize(("flavor", "image"), [("false", "true"), ("bogus", "true"), ("true", "false")])
def test_flavor_and_image_must_agree_on_a_packed_virtqueue(flavor, image):
    assert refused_as(packed_ring_traits, spec_of("virtio_packed_ring", flavor, image)) == "FlavorImageConflict"


ENCRYPTION = "COMPUTE_EPHEMERAL_ENCRYPTION"


@pytest.mark.parametrize(
    ("flavor", "image", "traits"),
    [
        ({"": "true", "_format": "luks"}, {}, {ENCRYPTION, f"{ENCRYPTION}_LUKS"}),
        ({}, {"": "true", "_format": "luks"}, {ENCRYPTION, f"{ENCRYPTION}_LUKS"}),
        ({"": "true"}, {"_format": "luksv2"}, {ENCRYPTION, f"{ENCRYPTION}_LUKSV2"}),
        ({"": "true"}, {}, {ENCRYPTION}),
        ({"_format": "luks"}, {}, set()),
        ({}, {"_format": "luks"}, set()),
        ({"": "false", "_format": "zz"}, {}, set()),
    ],
)
def test_encrypted_disks(flavor, image, traits):
    assert encryption_traits(encrypted(flavor, image)) == traits


def encrypted(flavor, image):
    return make_spec(
        extra_specs={f"hw:ephemeral_encryption{key}": value for key, value in flavor.items()},
        image={f"hw_ephemeral_encryption{key}": value for key, value in image.items()},
    )


@pytest.mark.parametrize(
    ("flavor", "image", "nova_type"),
    [
        ({"": "true", "_format": "zz"}, {}, "Invalid"),
        ({"": "false"}, {"": "true"}, "FlavorImageConflict"),
        ({"_format": "plain"}, {"": "true", "_format": "luks"}, "FlavorImageConflict"),
    ],
)
def test_encrypted_disks_that_contradict_themselves(flavor, image, nova_type):
    assert refused_as(encryption_traits, encrypted(flavor, image)) == nova_type


@pytest.mark.parametrize("model", ["sb16", "es1370", "pcspk", "ac97", "ich6", "ich9", "usb"])
def test_other_sound_cards_than_virtio_need_nothing(model):
    assert sound_traits(spec_of("sound_model", model, None)) == set()


@pytest.mark.parametrize(("flavor", "image"), [("virtio", None), (None, "virtio"), ("virtio", "virtio")])
def test_a_virtio_sound_card_needs_a_host_that_has_it(flavor, image):
    assert sound_traits(spec_of("sound_model", flavor, image)) == {"COMPUTE_SOUND_MODEL_VIRTIO"}


@pytest.mark.parametrize(
    ("flavor", "image", "nova_type"), [("kazoo", None, "Invalid"), ("virtio", "usb", "FlavorImageConflict")]
)
def test_a_sound_card_that_is_none_or_two(flavor, image, nova_type):
    assert refused_as(sound_traits, spec_of("sound_model", flavor, image)) == nova_type


TPM = "COMPUTE_SECURITY_TPM_SECRET_SECURITY_"


@pytest.mark.parametrize(
    ("extra_specs", "image", "suffix"),
    [
        ({"hw:tpm_version": "2.0"}, {}, "USER"),
        ({"hw:tpm_version": "1.2", "hw:tpm_secret_security": ""}, {}, "USER"),
        ({"hw:tpm_version": "2.0", "hw:tpm_secret_security": "user"}, {}, "USER"),
        ({"hw:tpm_version": "2.0", "hw:tpm_secret_security": "host"}, {}, "HOST"),
        ({"hw:tpm_secret_security": "deployment"}, {"hw_tpm_version": "2.0"}, "DEPLOYMENT"),
        ({"hw:tpm_version": "2.0", "hw:tpm_model": "tpm-crb"}, {}, "USER"),
        ({"hw:tpm_version": "1.2", "hw:tpm_model": "tpm-tis"}, {}, "USER"),
        ({"hw:tpm_secret_security": "host"}, {}, None),
        ({}, {}, None),
    ],
)
def test_where_the_secret_of_a_tpm_may_live(extra_specs, image, suffix):
    assert tpm_traits(make_spec(extra_specs=extra_specs, image=image)) == ({TPM + suffix} if suffix else set())


@pytest.mark.parametrize(
    ("extra_specs", "image", "nova_type"),
    [
        ({"hw:tpm_version": "3.0"}, {}, "Invalid"),
        ({"hw:tpm_version": "2.0", "hw:tpm_model": "tpm-zz"}, {}, "Invalid"),
        ({"hw:tpm_version": "1.2", "hw:tpm_model": "tpm-crb"}, {}, "InvalidVTPMConfig"),
        ({"hw:tpm_version": "2.0", "hw:tpm_secret_security": "moon"}, {}, "RequestFilterFailed"),
        ({"hw:tpm_version": "2.0"}, {"hw_tpm_version": "1.2"}, "FlavorImageConflict"),
    ],
)
def test_a_tpm_that_cannot_be(extra_specs, image, nova_type):
    assert refused_as(tpm_traits, make_spec(extra_specs=extra_specs, image=image)) == nova_type


@pytest.mark.parametrize(
    ("name", "extra_specs", "trait"),
    [
        ("accelerators", {"accel:device_profile": "gpu"}, "COMPUTE_ACCELERATORS"),
        ("packed_virtqueue", {"hw:virtio_packed_ring": "true"}, "COMPUTE_NET_VIRTIO_PACKED"),
        ("ephemeral_encryption", {"hw:ephemeral_encryption": "true"}, ENCRYPTION),
        ("virtio_sound", {"hw:sound_model": "virtio"}, "COMPUTE_SOUND_MODEL_VIRTIO"),
        ("tpm_secret_security", {"hw:tpm_version": "2.0"}, f"{TPM}USER"),
    ],
)
def test_these_are_asked_without_any_switch(name, extra_specs, trait):
    table = make_hosts(host=["a", "b"], traits=[[trait, "OTHER"], ["OTHER"]])
    spec = make_spec(extra_specs=extra_specs)
    assert asked(spec, table, OFF) == {name: ["a"]}
    assert reasons(spec, table, OFF) == {"b": f"lacks {trait}"}


# --- all together ------------------------------------------------------------------------------------

EVERYTHING = {
    "limit_tenants_to_placement_aggregate": True,
    "placement_aggregate_required_for_tenants": True,
    "query_placement_for_availability_zone": True,
    "query_placement_for_image_type_support": True,
    "enable_isolated_aggregate_filtering": True,
    "image_metadata_prefilter": True,
}
DEMANDING = {
    "project_id": "p1",
    "availability_zone": "az1",
    "image": Image(disk_format="qcow2", properties={"hw_disk_bus": "virtio"}),
    "extra_specs": {
        "accel:device_profile": "gpu",
        "hw:virtio_packed_ring": "true",
        "hw:ephemeral_encryption": "true",
        "hw:sound_model": "virtio",
        "hw:tpm_version": "2.0",
    },
}


def test_the_order_is_that_of_nova():
    table = hosts_in({"A": {"filter_tenant_id": "p1", "availability_zone": "az1"}, "B": {"trait:T": "required"}})
    assert list(asked(make_spec(**DEMANDING), table, PrefilterOptions(**EVERYTHING))) == [
        "tenant_aggregate",
        "availability_zone",
        "image_type",
        "isolated_aggregates",
        "image_metadata",
        "accelerators",
        "packed_virtqueue",
        "ephemeral_encryption",
        "virtio_sound",
        "tpm_secret_security",
    ]


def test_a_rebuild_skips_them_all():
    table = hosts_in({"A": {"filter_tenant_id": "p9", "availability_zone": "az1"}})
    spec = make_spec(**DEMANDING, scheduler_hints=REBUILD)
    assert asked(spec, table, PrefilterOptions(**EVERYTHING)) == {}
    assert list(capacity_checks(spec)) == []


def test_a_rebuild_does_not_even_fail_where_flavor_and_image_contradict_each_other():
    spec = make_spec(extra_specs={"hw:sound_model": "usb"}, image={"hw_sound_model": "ac97"}, scheduler_hints=REBUILD)
    assert asked(spec, make_hosts(1), PrefilterOptions()) == {}


@pytest.mark.parametrize("switch", EVERYTHING)
def test_the_switches_are_options_of_nova_by_name(switch):
    default = getattr(PrefilterOptions(), switch)
    assert default is (switch == "query_placement_for_availability_zone")
    settings = read_options(explicit={"scheduler": {switch: not default}})
    assert getattr(build_pipeline(settings).rules.prefilters, switch) is not default


def place(pipeline, table, spec):
    return pipeline.place(table, spec, ["u"], randomness=random.Random(0), clock=lambda: 0)


def test_the_pipeline_asks_them_before_capacity_and_says_who_was_lost():
    table = make_hosts(
        host=["a", "b"], vcpus_total=8, total_usable_ram_mb=8192, traits=[["COMPUTE_ACCELERATORS"], []]
    )
    pipeline = Pipeline([], [], prefilters=OFF)
    spec = make_spec(extra_specs={"accel:device_profile": "gpu"})
    decision = place(pipeline, table, spec)
    assert [each.host for each in decision.selections] == ["a"]
    first = decision.steps[0]
    assert (first.stage, first.name, first.before, first.after) == ("prefilter", "accelerators", 2, 1)
    with pytest.raises(NoValidHost) as caught:
        place(pipeline, make_hosts(2), spec)
    assert caught.value.decision.rejected == {"accelerators": 2}


def test_a_project_that_no_aggregate_names_gets_no_host_where_one_is_required():
    pipeline = Pipeline([], [], prefilters=PrefilterOptions(**EVERYTHING))
    with pytest.raises(NoValidHost) as caught:
        place(pipeline, make_hosts(3), make_spec(project_id="p1"))
    assert caught.value.decision.rejected == {"tenant_aggregate": 3}


def test_an_aggregate_is_known_by_what_it_is_and_not_by_its_name():
    """Two aggregates of one name, as two cells may have: only the one with the zone confines."""
    one, other = Aggregate("same", {"availability_zone": "az1"}, id=1), Aggregate("same", {}, id=2)
    table = make_hosts(host=["a", "b"], aggregates=[[one], [other]])
    assert asked(make_spec(availability_zone="az1"), table, PrefilterOptions()) == {"availability_zone": ["a"]}
