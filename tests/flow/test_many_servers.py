# SPDX-License-Identifier: Apache-2.0
"""A hundred servers on a hundred hosts, of whose builds some fail: the small form of a part of `make soak`."""

from tests.soak.building import build_and_delete


def test_every_server_ends_active_or_with_a_reason(tmp_path):
    found = build_and_delete(f"sqlite:///{tmp_path}/roost.db", servers=100, clients=8, agents=100, seed=1)
    assert found["active"] + found["error"] == 100
    assert found["retries"] > 0  # or nothing is shown about them
