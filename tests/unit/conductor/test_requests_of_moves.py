# SPDX-License-Identifier: Apache-2.0
"""What each operation asks of the scheduler: the table of the specification, row by row."""

import pytest

from roost.conductor.questions import (
    NamedHost,
    request_for_cold_migration,
    request_for_evacuation,
    request_for_live_migration,
    request_for_rebuild,
    request_for_resize,
    request_for_unshelving,
)
from roost.messages.objects.request import request_from_object, request_to_object
from roost.model import Flavor, Image, RequestSpec, ServerGroup
from roost.model.request import Destination, Retry

SMALL, LARGE = Flavor(1, 1024, name="small"), Flavor(2, 4096, name="large")
GROUP = ServerGroup("anti-affinity", uuid="6a0b7c1e-5ef2-4a3e-9d7b-0c9b8f7a1e01", hosts=("old",))
BOOT = RequestSpec(
    flavor=SMALL,
    num_instances=3,
    availability_zone="north",
    force_hosts=("booted-here",),
    force_nodes=("booted-here",),
    requested_destination=Destination(host="booted-here"),
    ignore_hosts=("not-there",),
    retry=Retry(2, (("failed", "failed"),)),
    scheduler_hints={"different_host": ("6a0b7c1e-5ef2-4a3e-9d7b-0c9b8f7a1e02",)},
    instance_group=GROUP,
)
NAMED, FORCED = NamedHost("b", "b1"), NamedHost("b", "b1", is_forced=True)
FAILED = (("c", "c1"),)


def asked(spec):
    """(size, ignore_hosts, destination, force_hosts, retry) as the scheduler reads the message."""
    spec = request_from_object(request_to_object(spec))
    wanted = spec.requested_destination
    destination = (wanted.host, wanted.node) if wanted else None
    retry = (spec.retry.num_attempts, spec.retry.hosts) if spec.retry else None
    return spec.flavor.name, spec.ignore_hosts, destination, spec.force_hosts, retry


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (request_for_cold_migration(BOOT, "a"), ("small", ("a",), None, None, (1, ()))),
        (request_for_cold_migration(BOOT, "a", NAMED), ("small", ("a",), ("b", "b1"), None, None)),
        (request_for_cold_migration(BOOT, "a", None, FAILED), ("small", ("a",), None, None, (2, FAILED))),
        (request_for_resize(BOOT, LARGE, "a", False), ("large", ("a",), None, None, (1, ()))),
        (request_for_resize(BOOT, LARGE, "a", True), ("large", None, None, None, (1, ()))),
        (request_for_resize(BOOT, LARGE, "a", False, FAILED), ("large", ("a",), None, None, (2, FAILED))),
        (request_for_live_migration(BOOT, ["a", "c"]), ("small", ("a", "c"), None, None, None)),
        (request_for_live_migration(BOOT, ["a"], NAMED), ("small", ("a",), ("b", "b1"), None, None)),
        (request_for_live_migration(BOOT, ["a"], FORCED), ("small", ("a",), ("b", "b1"), ("b",), None)),
        (request_for_evacuation(BOOT, "a"), ("small", ("a",), None, None, None)),
        (request_for_evacuation(BOOT, "a", NAMED), ("small", ("a",), ("b", "b1"), None, None)),
        (request_for_evacuation(BOOT, "a", FORCED), ("small", ("a",), ("b", "b1"), ("b",), None)),
        (request_for_rebuild(BOOT, None, "a", "a1"), ("small", None, None, ("a",), None)),
        (request_for_unshelving(BOOT), ("small", None, None, None, (1, ()))),
        (request_for_unshelving(BOOT, NAMED), ("small", None, ("b", "b1"), None, (1, ()))),
        (request_for_unshelving(BOOT, None, None, FAILED), ("small", ("c",), None, None, (2, FAILED))),
    ],
)
def test_each_operation_asks_what_the_table_says(spec, expected):
    assert asked(spec) == expected


@pytest.mark.parametrize(
    "spec",
    [
        request_for_cold_migration(BOOT, "a"),
        request_for_resize(BOOT, LARGE, "a", False),
        request_for_live_migration(BOOT, ["a"]),
        request_for_evacuation(BOOT, "a"),
        request_for_rebuild(BOOT, None, "a", "a1"),
        request_for_unshelving(BOOT),
    ],
)
def test_zone_and_hints_of_the_boot_stay_and_the_group_is_read_anew(spec):
    assert (spec.availability_zone, spec.num_instances) == ("north", 1)
    assert BOOT.scheduler_hints.items() <= spec.scheduler_hints.items()
    assert (spec.instance_group.uuid, spec.instance_group.hosts) == (GROUP.uuid, ())


def test_a_rebuild_is_a_check_of_the_present_node_with_the_new_image():
    image = Image("new")
    spec = request_for_rebuild(BOOT, image, "a", "a1")
    assert (spec.is_rebuild, spec.image, spec.force_nodes) == (True, image, ("a1",))


def test_a_resize_derives_cells_and_devices_from_the_new_flavor():
    spec = request_for_resize(BOOT.changed(pci_requests=("an old device",)), LARGE, "a", False)
    assert (spec.numa_topology, spec.pci_requests) == (None, ())


def test_an_unshelving_may_go_to_another_zone():
    assert request_for_unshelving(BOOT, zone="south").availability_zone == "south"
