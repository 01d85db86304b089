# SPDX-License-Identifier: Apache-2.0
"""What select_destinations answers, in both forms."""

import json
from uuid import UUID

import pytest

from roost.errors import FieldError
from roost.hosts.numa_cells import OvercommitLimits
from roost.messages.objects.selections import (
    SelectedHost,
    mappings_of,
    selection_from_object,
    selection_to_dict,
    selection_to_object,
)
from roost.model.request import NumaLimits, RequestGroup
from roost.testing import make_spec

NODE = "00000000-0000-4000-8000-000000000020"
CELL = "00000000-0000-4000-8000-000000000008"
BARE = SelectedHost("h", "n", NODE, CELL, {}, None, None)


def data_of(chosen):
    return selection_to_object(chosen)["nova_object.data"]


def test_a_selection_with_limits_is_understood_and_goes_out_as_it_came(recorded, unchanged):
    primitive = recorded("selection.limits")
    ratios = NumaLimits(16.0, 1.5)
    chosen = selection_from_object(primitive)
    assert chosen == BARE._replace(
        limits={"vcpu": 8, "disk_gb": 100, "memory_mb": 4096, "numa_topology": ratios},
    )
    assert selection_to_object(chosen) == unchanged(primitive)
    assert selection_to_dict(chosen) == unchanged(recorded("selection.limits.dict"))


def test_limits_are_those_that_the_filters_set_without_fractions():
    chosen = BARE._replace(limits={"vcpu": 12.8, "numa_topology": OvercommitLimits(16.0, 1.5)})
    limits = data_of(chosen)["limits"]["nova_object.data"]
    ratios = {"cpu_allocation_ratio": 16.0, "ram_allocation_ratio": 1.5}
    assert (limits["vcpu"], limits["memory_mb"], limits["disk_gb"]) == (12, None, None)
    assert limits["numa_topology"]["nova_object.data"] == ratios
    assert set(selection_to_dict(chosen)["limits"]) == {"vcpu", "numa_topology"}


def test_the_older_form_has_three_members():
    assert selection_to_dict(BARE) == {"host": "h", "nodename": "n", "limits": {}}


def test_without_a_claim_there_is_no_allocation():
    data = data_of(BARE)
    assert (data["allocation_request"], data["allocation_request_version"]) == ("null", None)


def test_an_allocation_says_who_serves_which_group():
    groups = [RequestGroup({"VGPU": 1}, requester_id="port1"), RequestGroup({"VGPU": 1})]
    spec = make_spec(requested_resources=groups)
    chosen = BARE._replace(allocations={NODE: {"VCPU": 2}}, mappings=mappings_of(spec, NODE))
    assert json.loads(data_of(chosen)["allocation_request"]) == {
        "allocations": {NODE: {"resources": {"VCPU": 2}}},
        "mappings": {"": [NODE], "port1": [NODE]},
    }
    assert selection_from_object(selection_to_object(chosen)).amounts == {"VCPU": 2}


@pytest.mark.parametrize("cell", ["cell1", "another"])
def test_a_cell_that_has_a_name_gets_the_same_uuid_every_time(cell):
    first, second = (data_of(BARE._replace(cell=cell))["cell_uuid"] for _ in range(2))
    assert first == second == str(UUID(first))


def test_cells_have_uuids_of_their_own():
    assert data_of(BARE._replace(cell="a"))["cell_uuid"] != data_of(BARE._replace(cell="b"))["cell_uuid"]


def test_an_older_selection_has_no_zone():
    primitive = selection_to_object(BARE._replace(availability_zone="az"))
    primitive["nova_object.version"] = "1.0"
    del primitive["nova_object.data"]["availability_zone"]
    assert selection_from_object(primitive).availability_zone is None


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("service_host", None, "selection.service_host: None is not text"),
        ("cell_uuid", "", "selection.cell_uuid: is empty"),
        ("allocation_request", "{", "selection.allocation_request: '{' is no JSON text"),
        ("allocation_request", "[" * 100_000, "selection.allocation_request: '"),
        ("allocation_request", 5, "selection.allocation_request: 5 is no JSON text"),
        ("allocation_request", "[1]", "selection.allocation_request: [1] is not a mapping"),
        ("limits", 5, "selection.limits: 5 is not a mapping"),
    ],
)
def test_a_mistake_in_a_reply_is_named(name, value, message):
    primitive = selection_to_object(BARE)
    primitive["nova_object.data"][name] = value
    with pytest.raises(FieldError) as error:
        selection_from_object(primitive)
    assert str(error.value).startswith(message)
