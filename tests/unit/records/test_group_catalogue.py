# SPDX-License-Identifier: Apache-2.0
"""Which values a client may give a server group."""

import pytest

from roost.errors import BadInput, FieldError
from roost.records.group_catalogue import NewGroup


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"name": ""}, "name"),
        ({"policy": "legacy"}, "policy"),
        ({"policy": None}, "policy"),
        ({"rules": {"max_server_per_host": 0}}, "rules.max_server_per_host"),
        ({"rules": {"max_server_per_host": "two"}}, "rules.max_server_per_host"),
        ({"rules": {"least": 1}}, "rules"),
    ],
)
def test_a_value_that_no_group_has(given, field):
    with pytest.raises(FieldError) as raised:
        NewGroup(**{"name": "g", "policy": "anti-affinity"} | given)
    assert raised.value.field == field


def test_rules_belong_to_anti_affinity():
    assert NewGroup("g", "anti-affinity", {"max_server_per_host": "2"}).rules == {"max_server_per_host": 2}
    with pytest.raises(BadInput, match="Only anti-affinity policy supports rules"):
        NewGroup("g", "soft-anti-affinity", {"max_server_per_host": 2})
