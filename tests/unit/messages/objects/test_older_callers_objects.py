# SPDX-License-Identifier: Apache-2.0
"""Messages of nova's releases from Ocata to 2024: understood with every field set, and sent on as they came."""

import json

import pytest
from tests.unit.messages.objects.conftest import MESSAGES

from roost.messages.objects.aggregates_instances import instances_from_object
from roost.messages.objects.request import request_from_object, request_to_object
from roost.messages.objects.selections import versions_for

OLDER = MESSAGES / "older"
FULL = sorted(each.name.removesuffix(".full.json") for each in OLDER.glob("[0-9]*.[0-9]*.[0-9]*.full.json"))
FULL = [each for each in FULL if "update" not in each]


def arguments(name):
    return json.loads((OLDER / f"{name}.json").read_text())["args"]


def test_there_are_releases():
    assert FULL == ["15.1.5", "16.1.8", "17.0.13", "18.3.0", "19.3.2", "21.2.4", "23.2.2", "29.4.0"]


@pytest.mark.parametrize("release", FULL)
def test_a_request_with_every_field_is_understood(release):
    spec = request_from_object(arguments(f"{release}.full")["spec_obj"])
    assert (spec.project_id, spec.availability_zone, spec.ignore_hosts) == ("p", "nova", ("cn00001",))
    assert (spec.instance_group.policy, spec.instance_group.hosts) == ("anti-affinity", ("cn00003",))
    assert (
        spec.requested_destination.host,
        spec.limits.memory_mb,
        spec.limits.numa_topology.ram_allocation_ratio,
    ) == (
        "numa1",
        4096,
        1.5,
    )
    assert [host for host, _ in spec.retry.hosts] == [f"cn0000{number}" for number in range(5)]
    assert spec.numa_topology.cells[0].cpu_policy == "dedicated"
    assert (spec.pci_requests[0].alias_name, dict(spec.pci_requests[0].spec[0])["product_id"]) == ("nic", "154c")


@pytest.mark.parametrize("release", FULL)
def test_it_is_the_same_request_when_it_is_sent_on(release):
    spec = request_from_object(arguments(f"{release}.full")["spec_obj"])
    assert request_from_object(request_to_object(spec)) == spec


@pytest.mark.parametrize("release", ["15.1.5", "28.3.1"])
def test_instances_of_a_host_are_understood(release):
    assert instances_from_object(arguments(f"{release}.update_instance_info.full")["instance_info"])


@pytest.mark.parametrize("version", ["1.15", "1.16", "1.999", "2.0x", None, 7])
def test_whoever_cannot_be_told_gets_what_is_written_today(version):
    assert versions_for({"nova_object.version": version}).selection == "1.1"


def test_who_sends_dicts_gets_the_oldest_form():
    assert versions_for(None).numa_limits == "1.0"
