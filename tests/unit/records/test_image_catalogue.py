# SPDX-License-Identifier: Apache-2.0
"""Which values a client may give an image."""

import pytest

from roost.errors import FieldError
from roost.records.image_catalogue import NewImage


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"properties": {"hw_numa_nodes": "many"}}, "properties.hw_numa_nodes"),
        ({"properties": ["os_distro"]}, "properties"),
        ({"visibility": "secret"}, "visibility"),
        ({"min_ram": -1}, "min_ram"),
    ],
)
def test_a_value_that_no_image_has(given, field):
    with pytest.raises(FieldError) as raised:
        NewImage(**given)
    assert raised.value.field == field


def test_properties_are_kept_as_they_are_written():
    written = {"hw_numa_nodes": "2", "my_own": "thing"}
    assert NewImage(properties=written).properties == written
