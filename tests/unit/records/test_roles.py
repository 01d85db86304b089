# SPDX-License-Identifier: Apache-2.0
"""Which role implies which."""

import pytest

from roost.errors import BadInput
from roost.records.users import check_role, with_implied


@pytest.mark.parametrize(
    ("roles", "effective"),
    [
        (["admin"], {"admin", "member", "reader"}),
        (["member"], {"member", "reader"}),
        (["reader"], {"reader"}),
        (["reader", "admin"], {"admin", "member", "reader"}),
        (["auditor"], {"auditor"}),
        ([], set()),
    ],
)
def test_a_role_implies_the_lower_ones(roles, effective):
    assert with_implied(roles) == effective


def test_an_unknown_role_is_refused_with_the_nearest():
    with pytest.raises(BadInput, match=r"no role 'admn' \(did you mean admin\?\)"):
        check_role("admn")
