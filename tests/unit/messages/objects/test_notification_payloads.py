# SPDX-License-Identifier: Apache-2.0
"""What notifications say of a request is what nova's say."""

import json

import pytest

from roost.messages.objects.notifications import legacy_payload, versioned_payload
from roost.messages.objects.request import request_from_object
from roost.model import Destination, Retry
from roost.model.request import SecurityGroup
from roost.testing import make_spec


@pytest.mark.parametrize("name", ["full", "bare"])
def test_the_versioned_payload_is_novas(recorded, unchanged, name):
    spec = request_from_object(recorded(f"request_spec.{name}"))
    assert versioned_payload(spec) == unchanged(recorded(f"request_spec_payload.{name}"))


def test_the_unversioned_payload_is_novas_but_for_what_it_cannot_write(recorded):
    payload = legacy_payload(request_from_object(recorded("request_spec.full")))
    expected = recorded("legacy_payload.full")
    ours, theirs = payload["request_spec"], expected["request_spec"]
    devices = ours["instance_properties"].pop("pci_requests")
    assert [each["count"] for each in devices["requests"]] == [1, 1]
    theirs["instance_properties"].pop("pci_requests")  # nova writes the insides of its objects here
    theirs["instance_properties"]["numa_topology"]["cells"][1]["cpu_topology"] = {
        "sockets": 1,
        "cores": 2,
        "threads": 1,
    }
    for record in (theirs["image"], theirs["instance_type"]):  # the same times, in another spelling
        record["created_at"] = record["created_at"].replace(".000000", "Z")
        record["updated_at"] = record["updated_at"] and record["updated_at"].replace(".000000", "Z")
    assert payload == expected


def test_payloads_of_our_own_requests_are_json():
    spec = make_spec(
        requested_destination=Destination(cell="cell1"),
        retry=Retry(hosts=[["h1", "n1"]]),
        security_groups=[SecurityGroup("default"), SecurityGroup(uuid="u")],
        force_hosts=["h1", "h2"],
    )
    data = json.loads(json.dumps(versioned_payload(spec)))["nova_object.data"]
    assert (data["force_hosts"], data["force_nodes"], data["security_groups"]) == ("h1", None, ["default", "u"])
    assert data["retry"]["nova_object.data"] == {"num_attempts": 1, "hosts": ["n1"]}
    assert json.loads(json.dumps(legacy_payload(spec)))["request_spec"]["image"] == {}
