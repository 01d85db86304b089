# SPDX-License-Identifier: Apache-2.0
"""The status of a server in nova's API."""

import pytest

from roost.client.interface import STATUSES as LISTED_BY_CLIENTS
from roost.records.server import STATUSES, VM_STATES, status_of


@pytest.mark.parametrize(
    ("vm_state", "task_state", "status"),
    [
        ("building", "scheduling", "BUILD"),
        ("active", None, "ACTIVE"),
        ("active", "deleting", "ACTIVE"),
        ("active", "resize_migrating", "RESIZE"),
        ("active", "migrating", "MIGRATING"),
        ("active", "rebuilding", "REBUILD"),
        ("stopped", "resize_prep", "RESIZE"),
        ("stopped", "powering-on", "SHUTOFF"),
        ("paused", "migrating", "MIGRATING"),
        ("resized", None, "VERIFY_RESIZE"),
        ("resized", "resize_reverting", "REVERT_RESIZE"),
        ("error", "rebuilding", "REBUILD"),
        ("shelved_offloaded", "unshelving", "SHELVED_OFFLOADED"),
        ("limbo", None, "UNKNOWN"),
        (None, None, "UNKNOWN"),
    ],
)
def test_the_status_follows_from_both_states(vm_state, task_state, status):
    assert status_of(vm_state, task_state) == status


def test_every_state_has_a_status():
    assert all(status_of(each, None) != "UNKNOWN" for each in VM_STATES)


def test_clients_can_ask_for_every_status_but_deleted():
    assert set(LISTED_BY_CLIENTS) == STATUSES - {"DELETED"}
