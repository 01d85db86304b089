# SPDX-License-Identifier: Apache-2.0
"""Which columns `-c` names."""

import pytest

from roost.cli.output import fields, find_columns, titled
from roost.errors import BadInput

COLUMNS = {"ID": "id", "vCPUs used": "vcpus_used", "MiB": "memory_mb"}


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("ID", "ID"),
        ("id", "ID"),
        ("vCPUs used", "vCPUs used"),
        ("vcpus_used", "vCPUs used"),
        ("VCPUS USED ", "vCPUs used"),
        ("memory_mb", "MiB"),
        ("Memory MB", "MiB"),
    ],
)
def test_a_column_is_named_by_its_title_or_its_field_as_openstackclient_has_it(name, title):
    assert find_columns([name], COLUMNS) == (title,)


def test_columns_come_in_the_order_in_which_they_are_named():
    assert find_columns(["mib", "id"], COLUMNS) == ("MiB", "ID")


def test_a_title_is_meant_before_the_field_of_another_column():
    assert find_columns(["name"], {"Name": "id", "Label": "name"}) == ("Name",)


@pytest.mark.parametrize(
    ("columns", "hint"),
    [
        (titled("Name", "Why not"), "known: Name, Why not"),
        (fields("id", "name"), "did you mean name?"),
        ({}, "leave out -c"),
    ],
)
def test_another_name_is_refused_with_what_there_is(columns, hint):
    with pytest.raises(BadInput) as refused:
        find_columns(["nmae"], columns)
    assert refused.value.message == "-c nmae: there is no such column"
    assert hint in refused.value.hint
