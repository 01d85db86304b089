# SPDX-License-Identifier: Apache-2.0
"""Names that stand for many."""

import pytest

from roost.errors import FieldError
from roost.sources.fleet_file import MAX_HOSTS, count_names, expand_name


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("node", ["node"]),
        ("node-[1-3]", ["node-1", "node-2", "node-3"]),
        ("node-[08-11]", ["node-08", "node-09", "node-10", "node-11"]),
        ("node-[5-5]", ["node-5"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("[0-1].rack", ["0.rack", "1.rack"]),
        ("n[099-101]", ["n099", "n100", "n101"]),
    ],
)
def test_a_range_stands_for_its_numbers_with_their_width(pattern, names):
    assert list(expand_name(pattern, "host")) == names
    assert count_names(pattern) == len(names)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("n[3-1]", r"host: the range \[3-1\] in 'n\[3-1\]' runs backwards \(write \[1-3\]\)"),
        ("n[1-5000001]", r"stands for 5000001 hosts \(at most 5000000\)"),
        ("n" + "[0-4999999]" * 40, "stands for"),
        ("n[1-" + "9" * 5000 + "]", "has a bracket that is no range"),
        ("n[1", "has a bracket that is no range"),
        ("n1]", "has a bracket that is no range"),
        ("n[a-b]", "has a bracket that is no range"),
        ("n[1-2][x]", "has a bracket that is no range"),
        ("n[\u0661-\u0663]", "has a bracket that is no range"),
    ],
)
def test_what_is_no_range_is_refused_without_being_built(pattern, message):
    with pytest.raises(FieldError, match=message):
        expand_name(pattern, "host")


def test_a_pattern_may_stand_for_as_many_hosts_as_there_are():
    assert len(list(expand_name("n[1-30]", "hosts", most=30))) == 30
    with pytest.raises(FieldError, match=r"stands for 31 hosts \(the fleet has 30\)"):
        expand_name("n[1-31]", "hosts", most=30)


def test_the_largest_range_is_allowed():
    assert count_names(f"n[1-{MAX_HOSTS}]") == MAX_HOSTS
