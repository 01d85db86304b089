# SPDX-License-Identifier: Apache-2.0
"""The messages that were captured from nova are understood, every value of them, and go out again as they came."""

import json

import pytest

from roost.hosts import Instance
from roost.messages.objects.aggregates_instances import aggregates_from_object, instances_from_object
from roost.messages.objects.request import request_from_object, request_to_object
from roost.messages.objects.selections import SelectedHost, selection_from_object, selection_to_object
from roost.messages.objects.to_objects import request_from_dicts
from roost.model import Aggregate, Flavor, Image, RequestSpec, Retry
from roost.model.request import Limits, RequestLevelParams

FIRST, SECOND = "49e32cc2-477a-5bcc-924e-553702095d73", "fe8e8212-3c59-59bd-8cae-a714f9a2da00"
CELL = "44ea3702-5b01-56c0-a778-39924f15b854"


def request_in_select_destinations(flavor_name, instances):
    return RequestSpec(
        flavor=Flavor(vcpus=2, memory_mb=2048, root_gb=20, name=flavor_name, id=3, flavorid="3"),
        image=Image(
            id="a9dd62bf-3941-52c4-b972-fa2de13086a5",
            properties={"hw_architecture": "x86_64", "os_distro": "ubuntu"},
        ),
        num_instances=instances,
        instance_uuid=FIRST,
        project_id="p-live",
        user_id="u-live",
        limits=Limits(),
        request_level_params=RequestLevelParams(),
    )


@pytest.mark.parametrize(
    ("name", "flavor_name", "uuids"),
    [
        ("select_destinations", "m1.small", [FIRST, SECOND]),
        ("select_destinations.no_valid_host", "no-such-flavor", [FIRST]),
    ],
)
def test_select_destinations_is_understood(message, name, flavor_name, uuids):
    args = message(name)["args"]
    assert request_from_object(args.pop("spec_obj")) == request_in_select_destinations(flavor_name, len(uuids))
    assert args == {"instance_uuids": uuids, "return_objects": True, "return_alternates": True}


def test_what_nothing_decides_by_is_there_for_plugins(message):
    spec = request_from_object(message("select_destinations")["args"]["spec_obj"])
    flavor = spec.flavor
    assert (flavor.rxtx_factor, flavor.vcpu_weight, flavor.disabled, flavor.is_public) == (1.0, 0, False, True)
    assert (spec.id, spec.image.visibility, spec.image.tags) == (None, None, ())


@pytest.mark.parametrize("name", ["select_destinations", "select_destinations.no_valid_host"])
def test_a_request_goes_out_as_it_came(message, unchanged, name):
    primitive = message(name)["args"]["spec_obj"]
    assert request_to_object(request_from_object(primitive)) == unchanged(primitive)


def test_the_reply_is_understood(message):
    reply = [[selection_from_object(each) for each in hosts] for hosts in message("select_destinations.reply")]
    assert [[each.host for each in hosts] for hosts in reply] == [
        ["stub-host-0", "stub-host-1", "stub-host-2"],
        ["stub-host-3", "stub-host-4", "stub-host-5"],
    ]
    assert reply[0][0] == SelectedHost(
        host="stub-host-0",
        node="stub-host-0",
        node_uuid="fadac25c-231f-5ae9-bfcc-98e3d381506a",
        cell=CELL,
        limits={},
        allocations={"fadac25c-231f-5ae9-bfcc-98e3d381506a": {"VCPU": 2, "MEMORY_MB": 2048}},
        availability_zone="nova",
    )


def test_the_reply_goes_out_as_it_came(message):
    reply = message("select_destinations.reply")
    again = [[selection_to_object(selection_from_object(each)) for each in hosts] for hosts in reply]
    assert json.dumps(again, sort_keys=True) == json.dumps(reply, sort_keys=True)


def test_the_older_message_is_understood(message):
    args = message("select_destinations.legacy-4.0")["args"]
    assert request_from_dicts(args["request_spec"], args["filter_properties"]) == RequestSpec(
        flavor=Flavor(2, 2048, 20, 0, 512, "c2.small", 5, "5", {"hw:cpu_policy": "shared"}),
        image=Image(id="18f714c9-2843-5bdb-a960-9e882f1d3fed", properties={"hw_architecture": "x86_64"}),
        num_instances=2,
        instance_uuid="5cf0a809-0401-5861-97ce-1e305e72dae9",
        project_id="p-blue",
        user_id="u-ann",
        availability_zone="az-east",
        scheduler_hints={"cidr": ["/24"], "different_host": ["e74067ac-a5c2-57d4-9158-d67e712eb1f9"]},
        ignore_hosts=["cn9"],
        retry=Retry(num_attempts=2, hosts=[["cn1", "cn1"]]),
    )


@pytest.mark.parametrize(("name", "field"), [("update_aggregates", "aggregates"), ("delete_aggregate", "aggregate")])
def test_aggregates_are_understood(message, name, field):
    uuid = "5d095aa7-7d96-596c-bf2b-5745258f3110"
    expected = Aggregate("a", {"availability_zone": "az1"}, ("h1",), id=1, uuid=uuid)
    assert aggregates_from_object(message(name)["args"][field]) == [expected]


def test_instances_of_a_host_are_understood(message):
    args = message("update_instance_info")["args"]
    assert (args["host_name"], instances_from_object(args["instance_info"])) == ("h1", [Instance(FIRST)])


def test_other_messages_about_instances_have_plain_names(message):
    assert message("delete_instance_info")["args"] == {"host_name": "h1", "instance_uuid": FIRST}
    assert message("sync_instance_info")["args"] == {"host_name": "h1", "instance_uuids": [FIRST, SECOND]}
