# SPDX-License-Identifier: Apache-2.0
from roost.model.remedy import counted, listed


def test_a_count_has_thousands_separators_and_the_plural():
    assert (counted(1, "host"), counted(0, "host"), counted(1200, "host")) == ("1 host", "0 hosts", "1,200 hosts")


def test_a_list_ends_with_and():
    assert (listed([]), listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])) == (
        "",
        "a",
        "a and b",
        "a, b and c",
    )


def test_what_is_too_much_for_a_list_is_counted():
    assert listed(["a", "b", "c", "d"], most=2) == "a, b and 2 more"
    assert listed(["a", "b"], total=1002) == "a, b and 1,000 more"
