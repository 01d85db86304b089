# SPDX-License-Identifier: Apache-2.0
"""Callers of older releases of nova: what they sent is decided, and answered in versions that they can read."""

import json
from pathlib import Path

import pytest
from tests.flow.cloud import CONTEXT, UUID

OLDER = Path(__file__).parents[1] / "wire" / "older"
SELECTION_FIELDS = {
    "compute_node_uuid",
    "service_host",
    "nodename",
    "cell_uuid",
    "limits",
    "allocation_request",
    "allocation_request_version",
}


def cell(number):
    cpus = list(range(8 * number, 8 * number + 8))
    pages = [{"size_kb": 4, "total": 8 * 1024**2}]
    return {"id": number, "cpuset": cpus, "pcpuset": cpus, "memory": 32768, "siblings": [], "mempages": pages}


HOST = {
    "vcpus_total": 16,
    "total_usable_ram_mb": 65536,
    "total_usable_disk_gb": 1000,
    "numa": {"cells": [cell(0), cell(1)]},
    "supported_instances": [["x86_64", "qemu", "hvm"]],
}
HOSTS = {"numa0": HOST, "numa1": HOST}


def message(name):
    return json.loads((OLDER / f"{name}.json").read_text())


@pytest.fixture
def ask(make_cloud):
    """Sends a recorded message, about another instance, to a scheduler of hosts with NUMA."""
    cloud = make_cloud(HOSTS)
    cloud.service()

    def send(name, **more):
        recorded = message(name)
        arguments = recorded["args"] | more
        if "instance_uuids" in arguments:
            arguments["instance_uuids"] = [UUID % 1]
        return cloud.transport.call(
            "scheduler", recorded["method"], recorded["version"], arguments, CONTEXT, timeout=30
        )

    return send


@pytest.mark.parametrize(
    ("release", "selection", "limits", "allocation"),
    [
        ("17.0.13", "1.0", "1.0", "1.17"),
        ("18.3.0", "1.0", "1.1", "1.30"),
        ("19.3.2", "1.0", "1.1", "1.31"),
        ("21.2.4", "1.1", "1.1", "1.36"),
        ("23.2.2", "1.1", "1.1", "1.36"),
        ("29.4.0", "1.1", "1.1", "1.36"),
    ],
)
def test_objects_are_of_a_version_that_the_caller_can_read(ask, release, selection, limits, allocation):
    ((first, *_),) = ask(f"{release}.numa.pinned")
    data = first["nova_object.data"]
    assert first["nova_object.version"] == selection
    assert data["limits"]["nova_object.data"]["numa_topology"]["nova_object.version"] == limits
    assert data["allocation_request_version"] == allocation
    assert set(data) == SELECTION_FIELDS | ({"availability_zone"} if selection == "1.1" else set())
    assert ("mappings" in json.loads(data["allocation_request"])) == (allocation == "1.36")


@pytest.mark.parametrize("name", ["15.1.5.numa.pinned", "16.1.8.numa.pinned", "18.3.0.numa.dedicated.as-4.0"])
def test_limits_in_dicts_are_of_the_version_that_all_can_read(ask, name):
    (chosen,) = ask(name)
    assert chosen["limits"]["numa_topology"]["nova_object.version"] == "1.0"


@pytest.mark.parametrize("name", ["16.1.8.two.dicts", "16.1.8.group.anti-affinity", "18.3.0.limits"])
def test_dicts_of_releases_that_had_objects_already_are_understood(ask, name):
    assert ask(f"{name}.as-4.0")
