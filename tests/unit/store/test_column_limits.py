# SPDX-License-Identifier: Apache-2.0
"""What does not fit a column is reported with its value, its place and the remedy."""

import pytest

from roost.errors import BadInput
from roost.store.columns import check_rows, fits
from roost.store.schema.fleet import compute_nodes, node_traits
from roost.store.schema.servers import server_group_slots

GOOD = {
    "host": "h" * 255,
    "vcpus": 2**63 - 1,
    "free_ram_mb": -(2**63),
    "cpu_allocation_ratio": 0.5,
    "cell": "Ünï 漢 🦜",
}


def check(table, *rows, place=lambda row: "host a"):
    for row in rows:
        check_rows(table, list(row), [tuple(row.values())], place)


def test_what_fits_passes():
    check(compute_nodes, GOOD, {"host_ip": None, "stats": "\0" * 300})


@pytest.mark.parametrize(
    ("table", "row", "message"),
    [
        (compute_nodes, {"host_ip": "1" * 46}, "host_ip: '1111.* is 46 characters long \\(at most 45 fit\\)"),
        (compute_nodes, {"vcpus": 2**63}, f"vcpus: {2**63} does not fit into the database \\(at most {2**63 - 1}\\)"),
        (compute_nodes, {"free_ram_mb": -(2**63) - 1}, "free_ram_mb"),
        (compute_nodes, {"cpu_allocation_ratio": float("-inf")}, "-inf is no finite number"),
        (compute_nodes, {"cell": "a\0"}, "has a NUL in it"),
        (compute_nodes, {"cell": "\udfff"}, "half a character"),
        (node_traits, {"trait": "T" * 256}, "at most 255"),
        (server_group_slots, {"slot": 2**31}, "slot"),
    ],
)
def test_what_does_not_fit_is_refused(table, row, message):
    with pytest.raises(BadInput, match=f"host a: .*{message}"):
        check(table, GOOD if table is compute_nodes else {}, row)


def test_a_place_that_is_too_long_to_read_is_cut():
    with pytest.raises(BadInput) as caught:
        check(compute_nodes, {"host": "h" * 300}, place=lambda row: f"host {row['host']}")
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("value", "is_fit"), [("n" * 255, True), ("n" * 256, False), ("a\0b", False), ("\ud800", False), (None, True)]
)
def test_what_cannot_be_stored_need_not_be_searched_for(value, is_fit):
    assert fits(compute_nodes.c.host, value) is is_fit
