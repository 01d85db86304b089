# SPDX-License-Identifier: Apache-2.0
"""spec/weighers.md 4.4: a move that may leave its cell would rather not."""

import pytest

from roost.scheduler.all_options import read_options
from roost.scheduler.full_scan import weigh
from roost.testing import make_hosts, make_spec
from roost.weighers.cross_cell import CrossCellWeigher

KEY = "cross_cell_move_weight_multiplier"
MAY_LEAVE = {"cell": "cell1", "allow_cross_cell_move": True}


def hosts(**columns):
    return make_hosts(cell=["cell1", "cell2", "cell1", "cell0"], **columns)


def raw(destination):
    return CrossCellWeigher().weigh(hosts(), make_spec(requested_destination=destination)).tolist()


def weights(table, destination=MAY_LEAVE, **options):
    weigher = CrossCellWeigher(CrossCellWeigher.Options(**options))
    return weigh(table, [weigher], make_spec(requested_destination=destination)).weights.tolist()


def test_hosts_of_the_cell_get_1_and_others_minus_1():
    assert raw(MAY_LEAVE) == [1, -1, 1, -1]


@pytest.mark.parametrize(
    "destination",
    [
        pytest.param(None, id="no destination"),
        pytest.param({"cell": "cell1", "allow_cross_cell_move": False}, id="it may not leave the cell"),
        pytest.param({"allow_cross_cell_move": True}, id="no cell"),
        pytest.param({"cell": "", "allow_cross_cell_move": True}, id="an empty cell"),
    ],
)
def test_in_every_other_case_cells_make_no_difference(destination):
    assert raw(destination) == [0, 0, 0, 0]
    assert weights(hosts(), destination) == [0.0, 0.0, 0.0, 0.0]


def test_staying_outdoes_everything_else_by_default():
    assert CrossCellWeigher().multiplier() == 1000000.0
    assert weights(hosts()) == [1000000.0, 0.0, 1000000.0, 0.0]


@pytest.mark.parametrize("cell", ["cell1", "cell2"])
def test_hosts_that_are_all_inside_or_all_outside_make_no_difference(cell):
    assert weights(make_hosts(2, cell=cell)) == [0.0, 0.0]


def test_a_negative_multiplier_prefers_to_leave():
    assert weights(hosts(), **{KEY: -2.0}) == [-2.0, 0.0, -2.0, 0.0]


def test_an_aggregate_overrides_the_multiplier_of_its_hosts():
    table = hosts(aggregates=[[{KEY: "-5"}, {KEY: "7"}], [{KEY: "9"}], [{KEY: "x"}], []])
    assert weights(table) == [-5.0, 0.0, 1000000.0, 0.0]


def test_the_multiplier_is_read_from_the_section_filter_scheduler():
    settings = read_options(explicit={"filter_scheduler": {KEY: "-1.5"}})
    assert CrossCellWeigher(settings.fill(CrossCellWeigher.Options)).multiplier() == -1.5
