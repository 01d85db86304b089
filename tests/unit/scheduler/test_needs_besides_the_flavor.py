# SPDX-License-Identifier: Apache-2.0
"""What a request brings along besides flavor and image: its cell, request groups, root traits, aggregates by uuid."""

import random

import pytest

from roost.errors import NoValidHost
from roost.hosts import Inventory
from roost.model import Aggregate, Destination
from roost.model.request import RequestGroup, RequestLevelParams
from roost.scheduler.pipeline import Pipeline
from roost.testing import make_hosts, make_spec

A, B, C = (Aggregate(name, uuid=f"uuid-{name}", id=name) for name in "abc")
ROOMY = {"vcpus_total": 8, "total_usable_ram_mb": 8192, "total_usable_disk_gb": 100}


def fleet():
    """Host `ab` is in the aggregates a and b, has the trait CUSTOM_AB and two GPUs; so with the others."""
    names = ["a", "ab", "bc", "none"]
    return make_hosts(
        host=names,
        aggregates=[[A], [A, B], [B, C], []],
        traits=[frozenset({f"CUSTOM_{name.upper()}"}) for name in names],
        resources=[{"VGPU": Inventory(total)} for total in (1, 2, 3, 4)],
        **ROOMY,
    )


def placed(pipeline, table, spec):
    """The hosts that would do, or how they were lost. Nothing stays taken."""
    chance = random.Random(1)
    try:
        decision = pipeline.place(table, spec, ["i1"], randomness=chance, clock=lambda: 0, alternates=4)
    except NoValidHost as refused:
        return str(refused)
    (selection,) = decision.selections
    table.release(selection.row, selection.placed)
    return sorted([selection.host, *(each.host for each in selection.alternates)])


def may_take(**needs):
    return placed(Pipeline([], []), fleet(), make_spec(**needs))


# --- cells -------------------------------------------------------------------------------------------

NORTH = "9d0d3b52-3333-4444-8555-666677778888"
IN_ONE_CELL = Pipeline([], [], reads_one_cell=True)


@pytest.mark.parametrize(
    ("wanted", "hosts"),
    [
        ({"cell": "south"}, ["s1", "s2"]),
        ({"cell": "the north", "cell_uuid": NORTH}, ["n1"]),
        ({"cell": "south", "host": "s2"}, ["s2"]),
        ({"cell": "south", "host": "n1"}, "0 of 3 hosts fit: 2 requested_destination, 1 cell"),
        ({"cell": "nowhere"}, "0 of 3 hosts fit: 3 cell"),
        # Where it may go anywhere the first host is taken, and alternates are of its cell.
        ({"cell": "south", "allow_cross_cell_move": True}, ["n1"]),
        ({"cell": "nowhere", "allow_cross_cell_move": True}, ["n1"]),
        ({"cell": None}, ["n1"]),
    ],
)
def test_a_request_stays_in_its_cell(wanted, hosts):
    table = make_hosts(host=["s1", "n1", "s2"], cell=["south", NORTH, "south"], **ROOMY)
    assert placed(IN_ONE_CELL, table, make_spec(requested_destination=Destination(**wanted))) == hosts


def test_where_there_is_one_cell_it_may_be_called_anything():
    table = make_hosts(host=["a", "b"], **ROOMY)
    wanted = Destination(cell="nova's name for it", cell_uuid=NORTH)
    assert placed(IN_ONE_CELL, table, make_spec(requested_destination=wanted)) == ["a", "b"]


# --- aggregates --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "hosts"),
    [
        ({"aggregates": ["uuid-a"]}, ["a", "ab"]),
        ({"aggregates": ["uuid-a,uuid-c"]}, ["a", "ab", "bc"]),
        ({"aggregates": ["uuid-a", "uuid-b"]}, ["ab"]),
        ({"aggregates": ["uuid-a,uuid-c", "uuid-b"]}, ["ab", "bc"]),
        ({"forbidden_aggregates": ["uuid-a"]}, ["bc", "none"]),
        ({"forbidden_aggregates": ["uuid-a", "uuid-c"]}, ["none"]),
        ({"aggregates": ["uuid-b"], "forbidden_aggregates": ["uuid-a"]}, ["bc"]),
        ({"forbidden_aggregates": ["unheard of"]}, ["a", "ab", "bc", "none"]),
        ({"host": "ab", "aggregates": ["uuid-a"]}, ["ab"]),
        ({}, ["a", "ab", "bc", "none"]),
    ],
)
def test_a_destination_names_aggregates_by_uuid(wanted, hosts):
    assert may_take(requested_destination=Destination(**wanted)) == hosts


def test_an_aggregate_that_nobody_knows_has_no_hosts():
    wanted = Destination(aggregates=["unheard of"])
    assert may_take(requested_destination=wanted) == "0 of 4 hosts fit: 4 requested_aggregates"


@pytest.mark.parametrize(
    ("group", "hosts"),
    [
        ({"aggregates": [["uuid-a", "uuid-c"], ["uuid-b"]]}, ["ab", "bc"]),
        ({"forbidden_aggregates": ["uuid-b"]}, ["a", "none"]),
    ],
)
def test_so_does_a_request_group(group, hosts):
    assert may_take(requested_resources=[RequestGroup(**group)]) == hosts


def test_a_rebuild_asks_for_no_aggregates():
    hints = {"_nova_check_type": ["rebuild"]}
    wanted = Destination(host="none", aggregates=["uuid-a"])
    assert may_take(requested_destination=wanted, scheduler_hints=hints) == ["none"]


# --- resources and traits ----------------------------------------------------------------------------


def test_groups_add_up_on_one_host():
    groups = [RequestGroup({"VGPU": 1}), RequestGroup({"VGPU": 2})]
    assert may_take(requested_resources=groups) == ["bc", "none"]


@pytest.mark.parametrize(
    ("group", "hosts"),
    [
        ({"required_traits": ["CUSTOM_AB"]}, ["ab"]),
        ({"forbidden_traits": ["CUSTOM_AB"]}, ["a", "bc", "none"]),
        ({"resources": {"VGPU": 2}, "forbidden_traits": ["CUSTOM_AB"]}, ["bc", "none"]),
        ({"resources": {"CUSTOM_UNHEARD_OF": 1}}, "0 of 4 hosts fit: 4 CUSTOM_UNHEARD_OF (needs 1, most free 0)"),
    ],
)
def test_a_group_has_traits_and_amounts(group, hosts):
    assert may_take(requested_resources=[RequestGroup(**group)]) == hosts


@pytest.mark.parametrize(
    ("params", "hosts"),
    [
        ({"root_required": ["CUSTOM_BC"]}, ["bc"]),
        ({"root_forbidden": ["CUSTOM_BC", "CUSTOM_A"]}, ["ab", "none"]),
        ({"same_subtree": [["x", "y"]]}, ["a", "ab", "bc", "none"]),
    ],
)
def test_root_traits_are_traits_of_the_host(params, hosts):
    assert may_take(request_level_params=RequestLevelParams(**params)) == hosts


# --- what is kept ------------------------------------------------------------------------------------

NEEDS = [
    {},
    {"requested_destination": Destination(aggregates=["uuid-a"])},
    {"requested_destination": Destination(aggregates=["uuid-b"])},
    {"requested_destination": Destination(forbidden_aggregates=["uuid-a"])},
    {"requested_destination": Destination(forbidden_aggregates=["uuid-b"])},
    {"requested_resources": [RequestGroup({"VGPU": 3})]},
    {"requested_resources": [RequestGroup({"VGPU": 3}, aggregates=[["uuid-b"]])]},
    {"requested_resources": [RequestGroup({"VGPU": 3}, aggregates=[["uuid-a"]])]},
    {"requested_resources": [RequestGroup({"VGPU": 3}, forbidden_aggregates=["uuid-b"])]},
    {"requested_resources": [RequestGroup({"VGPU": 3}, required_traits=["CUSTOM_BC"])]},
    {"requested_resources": [RequestGroup({"VGPU": 3}, forbidden_traits=["CUSTOM_BC"])]},
    {"requested_resources": [RequestGroup(required_traits=["CUSTOM_A"])]},
    {"request_level_params": RequestLevelParams(root_required=["CUSTOM_A"])},
    {"request_level_params": RequestLevelParams(root_required=["CUSTOM_BC"])},
    {"request_level_params": RequestLevelParams(root_forbidden=["CUSTOM_A"])},
    {"request_level_params": RequestLevelParams(root_forbidden=["CUSTOM_BC"])},
]


@pytest.mark.parametrize("first", NEEDS)
@pytest.mark.parametrize("second", NEEDS)
def test_a_pipeline_that_keeps_answers_tells_such_requests_apart(first, second):
    pipeline, table = Pipeline([], []), fleet()
    for needs in (first, first, second, second):
        assert placed(pipeline, table, make_spec(**needs)) == may_take(**needs)
