# SPDX-License-Identifier: Apache-2.0
"""Requests as versioned notifications tell of them, with what nova has stored for the rest."""

import dataclasses
import json
from pathlib import Path

import pytest

from roost.errors import FieldError
from roost.messages.objects.notifications import request_from_payload, versioned_payload
from roost.messages.objects.request import request_from_object

NOTIFICATIONS = Path(__file__).parents[3] / "wire/recorded/notifications.jsonl"
LOST = ("limits", "requested_resources", "network_metadata", "requested_networks", "request_level_params")
"""Fields that neither a payload nor the flavor's extra specs have."""


@pytest.fixture
def payload(recorded):
    found = recorded("request_spec_payload.full")
    found["nova_object.data"]["retry"] = None
    return found


def fields_of(spec, *without):
    return {each.name: getattr(spec, each.name) for each in dataclasses.fields(spec) if each.name not in without}


def test_a_payload_has_nearly_all_of_a_request(recorded, payload):
    spec, full = request_from_payload(payload), request_from_object(recorded("request_spec.full"))
    unknown = (*LOST, "retry", "is_bfv", "flavor", "requested_destination", "pci_requests")
    assert fields_of(spec, *unknown) == fields_of(full, *unknown)
    assert (spec.flavor, spec.is_bfv) == (dataclasses.replace(full.flavor, id=None), False)
    there, wanted = spec.requested_destination, full.requested_destination
    assert (there.host, there.node, there.cell, there.aggregates) == (
        *(wanted.host, wanted.node, wanted.cell, wanted.aggregates),
    )
    assert [each.spec for each in spec.pci_requests] == [each.spec for each in full.pci_requests]


def test_a_stored_request_fills_the_gaps(recorded, payload):
    stored = recorded("request_spec.full")
    spec, full = request_from_payload(payload, stored), request_from_object(stored)
    assert (spec.is_bfv, spec.flavor, spec.network_metadata) == (True, full.flavor, full.network_metadata)
    payload["nova_object.data"]["flavor"]["nova_object.data"] |= {"flavorid": "another", "vcpus": 3}
    assert request_from_payload(payload, stored).flavor.vcpus == 3


def test_our_own_payloads_are_understood(recorded):
    spec = request_from_object(recorded("request_spec.bare"))
    again = request_from_payload(json.loads(json.dumps(versioned_payload(spec))))
    assert fields_of(again, *LOST, "flavor", "image") == fields_of(spec, *LOST, "flavor", "image")


def test_forced_hosts_are_lists_again(payload):
    payload["nova_object.data"] |= {"force_hosts": "h1", "force_nodes": "n1"}
    spec = request_from_payload(payload)
    assert (spec.force_hosts, spec.force_nodes) == (("h1",), ("n1",))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"retry": "x"}, "payload.retry: is no SchedulerRetriesPayload"),
        ({"flavor": None}, "payload.flavor: is missing"),
        ({"num_instances": 0}, "payload.num_instances"),
    ],
)
def test_what_is_wrong_is_named(payload, change, said):
    payload["nova_object.data"] |= change
    with pytest.raises(FieldError, match=said):
        request_from_payload(payload)


def test_nodes_that_were_tried_are_not_enough(recorded):
    with pytest.raises(FieldError, match=r"payload\.retry: names nodes that were tried before, and not their hosts"):
        request_from_payload(recorded("request_spec_payload.full"))


@pytest.mark.parametrize("value", [None, [], {}, {"nova_object.name": "RequestSpec"}])
def test_what_is_no_payload_is_refused(value):
    with pytest.raises(FieldError, match="payload: is no RequestSpecPayload"):
        request_from_payload(value)


def test_every_recorded_notification_is_understood():
    lines = [json.loads(line) for line in NOTIFICATIONS.read_text(encoding="utf-8").splitlines()]
    payloads = [each["payload"] for each in lines if each["event_type"].startswith("scheduler.")]
    assert len(payloads) > 20
    assert {request_from_payload(each).num_instances for each in payloads} >= {1, 4}
