# SPDX-License-Identifier: Apache-2.0
"""Servers as clients see them: status, and what is for admins alone."""

import pytest
from tests.flow.whole_cloud import ADMIN, USER

from roost.errors import BadInput, RemoteFailure, RemoteNoValidHost, UnknownName


def test_hosts_and_details_are_for_admins(cloud):
    (uuid,) = cloud.boot(context=USER)
    (failed,) = cloud.boot(context=USER, flavor="huge")
    assert (cloud.show(uuid)["host"], cloud.show(uuid, USER)["host"]) == ("a", None)
    assert "details" in cloud.show(failed)["fault"]
    assert sorted(cloud.show(failed, USER)["fault"]) == ["code", "created", "message"]


def test_migrations_and_dry_runs_name_hosts_to_admins_only(cloud):
    (uuid,) = cloud.boot(context=USER)
    cloud.client().migrate_server_cold(uuid)
    cloud.client().confirm_resize(uuid)
    (move,) = cloud.client(USER).list_migrations(server=uuid)
    assert (move["status"], move["source_compute"], move["dest_node"]) == ("confirmed", None, None)
    assert cloud.client(USER).list_migrations(server=uuid, host="c") == [move]
    wanted = {"name": "web", "flavor": "small"}
    plans = (
        cloud.client(USER).create_servers(wanted, dry_run=True),
        cloud.client(USER).delete_server(uuid, dry_run=True),
        cloud.client(USER).rebuild_server(uuid, image="cirros", dry_run=True),
    )
    assert [(step["host"], step["summary"]) for plan in plans for step in plan["plan"]] == [(None, "")] * 3


def test_why_no_host_fits_is_for_admins(cloud):
    wanted = {"name": "web", "flavor": "huge"}
    summaries = []
    for context in (ADMIN, USER):
        with pytest.raises(RemoteNoValidHost) as caught:
            cloud.client(context).create_servers(wanted, dry_run=True)
        summaries.append(caught.value.summary)
    assert [bool(each) for each in summaries] == [True, False]


def test_a_host_that_is_down_is_not_named_to_the_owner_of_a_server(cloud):
    (uuid,) = cloud.boot(context=USER)
    cloud.pass_time(61, silent=["a"])
    with pytest.raises(BadInput, match=f"the host of server {uuid} is down"):
        cloud.client(USER).stop_server(uuid)


def test_a_server_of_another_project_cannot_be_seen(cloud):
    (uuid,) = cloud.boot()
    with pytest.raises(UnknownName):
        cloud.show(uuid, USER)
    assert cloud.client(USER).list_servers({}) == []
    assert cloud.client(USER).list_servers({"project_id": "blue"}) == []


def test_servers_are_listed_by_status_host_and_name(cloud):
    one, two = cloud.boot(name="one"), cloud.boot(name="two", flavor="huge")
    listed = cloud.client().list_servers

    def ids(**filters):
        return [each["id"] for each in listed(filters)]

    assert ids(status="ACTIVE") == ids(host="a") == ids(name="one") == one
    assert ids(status="ERROR") == two
    assert ids(status="ACTIVE", name="two") == []
    with pytest.raises(BadInput, match=r"filters.colour: is not known"):
        ids(colour="red")


def test_names_of_the_wrong_type_are_refused(cloud):
    (uuid,) = cloud.boot()
    for method, arguments in (
        ("list_servers", {"filters": {"host": ["a"]}}),
        ("list_migrations", {"host": {}}),
        ("migrate_server_cold", {"server": uuid, "host": 5}),
        ("live_migrate_server", {"server": uuid, "host": "b", "force": "no"}),
    ):
        with pytest.raises(RemoteFailure) as caught:
            cloud.transport.call("conductor", method, "1.0", arguments, ADMIN, timeout=30)
        assert caught.value.name == "BadInput", method


def test_a_page_has_as_many_servers_as_are_wanted_and_the_next_begins_after_it(cloud):
    cloud.boot(count=3)

    def page(**filters):
        args = {"filters": filters}
        answer = cloud.transport.call("conductor", "list_servers", "1.0", args, ADMIN, timeout=30)
        return [each["id"] for each in answer["servers"]]

    first = page(limit=2)
    assert len(first) == 2
    assert first + page(after=first[-1], limit=2) == page()


def test_the_reasons_of_failed_attempts_are_shown_while_the_task_runs(cloud):
    cloud.fail_builds_on("a")
    cloud.transport.lost = {"build_instances"}
    (uuid,) = cloud.boot()
    (attempt,) = cloud.show(uuid)["attempts"]
    assert (attempt["host"], attempt["reason"]) == ("a", "RuntimeError: no space left")
    cloud.transport.lost = set()
    cloud.pass_time(61)
    cloud.janitor.run()
    assert cloud.states(uuid) == [("ACTIVE", "b")]


def test_migrations_are_shown_with_their_server(cloud):
    (uuid,) = cloud.boot()
    cloud.client().migrate_server_cold(uuid)
    (move,) = cloud.show(uuid)["migrations"]
    assert (move["migration_type"], move["source_compute"], move["dest_compute"]) == ("migration", "a", "b")
    assert cloud.client().list_migrations(server=uuid) == [move]
    assert cloud.client(USER).list_migrations() == []
