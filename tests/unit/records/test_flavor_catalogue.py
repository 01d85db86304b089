# SPDX-License-Identifier: Apache-2.0
"""Which values a client may give a flavor."""

import pytest

from roost.errors import FieldError
from roost.records.flavor_catalogue import NewFlavor


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("vcpus", -1),
        ("memory_mb", "512"),
        ("swap", True),
        ("rxtx_factor", float("inf")),
        ("rxtx_factor", -0.5),
        ("is_public", "yes"),
        ("description", 7),
    ],
)
def test_a_value_that_no_flavor_has(field, value):
    with pytest.raises(FieldError) as raised:
        NewFlavor(**{"name": "small", "vcpus": 1, "memory_mb": 512, field: value})
    assert raised.value.field == field
