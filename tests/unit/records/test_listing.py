# SPDX-License-Identifier: Apache-2.0
"""Filters and order of lists, as far as they need no database."""

import pytest

from roost.errors import BadInput
from roost.records.listing import server_sort_keys


def test_servers_are_never_equal_in_all_sort_keys():
    assert [key.column.name for key in server_sort_keys([("display_name", "desc")])] == ["name", "uuid"]
    assert server_sort_keys([("display_name", "desc")])[-1].is_descending


@pytest.mark.parametrize(
    ("sort", "problem"),
    [([("colour", "asc")], "cannot be sorted by 'colour'"), ([("host", "up")], "'up' is no direction")],
)
def test_a_sort_key_that_does_not_exist_is_refused(sort, problem):
    with pytest.raises(BadInput, match=problem):
        server_sort_keys(sort)
