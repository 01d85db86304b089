# SPDX-License-Identifier: Apache-2.0
"""The two dicts that releases before Mitaka sent: nothing empty in them, hints unwrapped, groups as sets."""

from roost.model import Destination, Flavor, Image, RequestSpec, Retry, ServerGroup
from roost.model.request import Limits

BARE = RequestSpec(flavor=Flavor(2, 512, root_gb=5))


def test_a_bare_request_has_no_filter_properties():
    assert BARE.to_legacy_filter_properties_dict() == {}


def test_its_request_spec():
    nothing = ("numa_topology", "pci_requests", "project_id", "user_id", "availability_zone", "uuid")
    sizes = {"root_gb": 5, "ephemeral_gb": 0, "memory_mb": 512, "vcpus": 2}
    assert BARE.to_legacy_request_spec_dict() == {
        "num_instances": 1,
        "image": {},
        "instance_properties": dict.fromkeys(nothing) | sizes,
        "instance_type": BARE.flavor,
    }


def test_an_image_is_a_dict_of_what_is_known():
    image = Image("i", "debian", {"os_type": "linux"}, disk_format="qcow2")
    properties = {"properties": {"os_type": "linux"}}
    known = {"id": "i", "name": "debian", "disk_format": "qcow2", "min_ram": 0, "min_disk": 0} | properties
    assert BARE.changed(image=image).to_legacy_request_spec_dict()["image"] == known


def test_filter_properties_of_a_request_with_conditions():
    destination = Destination(host="h1")
    spec = RequestSpec(
        flavor=BARE.flavor,
        scheduler_hints={"group": ["g"], "different_host": ["i2", "i3"]},
        instance_group=ServerGroup("affinity", uuid="g", members=["i2"], hosts=["h1"]),
        ignore_hosts=["h9"],
        force_hosts=[],
        requested_destination=destination,
        retry=Retry(2, [["h1", "n1"], ["h2", None]]),
        limits=Limits(vcpu=8),
    )
    assert spec.to_legacy_filter_properties_dict() == {
        "scheduler_hints": {"group": "g", "different_host": ["i2", "i3"]},
        "group_updated": True,
        "group_uuid": "g",
        "group_hosts": {"h1"},
        "group_policies": {"affinity"},
        "group_members": {"i2"},
        "ignore_hosts": ["h9"],
        "requested_destination": destination,
        "retry": {"num_attempts": 2, "hosts": [["h1", "n1"], ["h2", None]]},
        "limits": {"vcpu": 8},
    }
