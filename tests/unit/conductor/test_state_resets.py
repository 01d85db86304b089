# SPDX-License-Identifier: Apache-2.0
"""Resets of the state of a server by an administrator."""

import pytest
from tests.flow.whole_cloud import USER

from roost.errors import BadInput, IllegalStep, UnknownName


def test_a_server_in_error_is_active_again_and_can_be_used(cloud):
    (uuid,) = cloud.boot()
    client = cloud.client()
    assert client.reset_server_state(uuid, "error")["status"] == "ERROR"
    assert client.reset_server_state(uuid, "active")["status"] == "ACTIVE"
    client.stop_server(uuid)
    assert cloud.states(uuid) == [("SHUTOFF", "a")]
    assert cloud.findings() == []


def test_a_move_that_hangs_is_ended_and_the_janitor_gives_back_what_it_held(cloud):
    (uuid,) = cloud.boot()
    cloud.transport.lost = {"resize_instance"}
    cloud.client().migrate_server_cold(uuid)
    assert cloud.show(uuid)["task_state"] == "resize_migrating"
    server = cloud.client().reset_server_state(uuid, "active")
    assert (server["status"], server["task_state"]) == ("ACTIVE", None)
    assert cloud.show(uuid)["migrations"][0]["status"] == "error"
    cloud.pass_time(601)
    cloud.cleaning.run()
    assert cloud.held(cloud.store.get(uuid)) == ({"a": 2048}, {})
    assert cloud.findings() == []


def test_a_build_that_hangs_is_given_up(cloud):
    cloud.transport.lost = {"build_and_run_instance"}
    (uuid,) = cloud.boot()
    cloud.client().reset_server_state(uuid, "error")
    cloud.pass_time(601)
    cloud.cleaning.run()
    assert cloud.held(cloud.store.get(uuid)) == ({}, {})
    with pytest.raises(IllegalStep, match="while it is on no host"):
        cloud.client().reset_server_state(uuid, "active")


def test_only_admins_reset_and_only_to_states_that_are_possible(cloud):
    (uuid,) = cloud.boot(context=USER)
    with pytest.raises(BadInput, match="only an admin"):
        cloud.client(USER).reset_server_state(uuid, "active")
    with pytest.raises(BadInput, match="'paused' is not possible"):
        cloud.client().reset_server_state(uuid, "paused")
    (step,) = cloud.client().reset_server_state(uuid, "error", dry_run=True)["plan"]
    assert (step["action"], cloud.states(uuid)) == ("reset to error", [("ACTIVE", "a")])
    cloud.client().delete_server(uuid)
    with pytest.raises(UnknownName, match="is deleted"):
        cloud.client().reset_server_state(uuid, "active")
