# SPDX-License-Identifier: Apache-2.0
"""An instance of a fleet file that its agent reports as gone: its host is free of it in every replica, for good."""

import datetime

import pytest
from sqlalchemy import select
from tests.flow.cloud import CONTEXT, UUID, hosts_of, request
from tests.store.fleets import LATER

from roost import NoValidHost, ServerGroup
from roost.messages.context import RequestContext
from roost.model.resources import move_of
from roost.records.servers import save_server_state
from roost.store.schema.history import changes
from roost.store.schema.servers import servers

GROUP = "0f0e3c53-5b0f-4f0e-8f0e-2b7d1d1f6a52"
MEMBER, OTHER, MIGRATION = UUID % 1, UUID % 2, move_of(UUID % 1)
AMOUNTS = {"VCPU": 2, "MEMORY_MB": 2048, "DISK_GB": 10}
RAM = {"filter_scheduler": {"weight_classes": ["RAMWeigher"]}}


def member_request(**more):
    return request(instance_group=ServerGroup("anti-affinity", "apart", GROUP, members=(MEMBER, OTHER)), **more)


@pytest.fixture(params=[AMOUNTS, None], ids=["with resources", "without resources"])
def cloud(make_cloud, request):
    listed = {"uuid": MEMBER} | ({"resources": request.param} if request.param else {})
    group = {"name": "apart", "policy": "anti-affinity", "uuid": GROUP, "members": [MEMBER, OTHER]}
    hosts = {"a": {"instances": [listed]}, "b": {"total_usable_ram_mb": 4096}}
    return make_cloud(hosts, RAM, server_groups=[group])


@pytest.fixture
def moving(make_cloud):
    cloud = make_cloud({"a": {"instances": [{"uuid": MEMBER, "resources": AMOUNTS}]}, "b": {}}, RAM)
    cloud.manager().claims.select(request(ignore_hosts=("a",)), [MEMBER])
    assert cloud.held(MEMBER, MIGRATION) == {MEMBER: ["b"], MIGRATION: ["a"]}
    return cloud


def host_of_server(cloud, uuid=MEMBER):
    with cloud.engine.connect() as connection:
        return tuple(connection.execute(select(servers.c.host, servers.c.node).where(servers.c.uuid == uuid)).one())


def count_changes(cloud):
    with cloud.engine.connect() as connection:
        return len(connection.execute(select(changes)).all())


def sent_at(time):
    return RequestContext.new("req-1", timestamp=time.replace(tzinfo=None).isoformat())


def test_another_member_of_its_group_can_use_the_host(cloud):
    one, two = cloud.service(), cloud.service()
    with pytest.raises(NoValidHost):
        one.manager.claims.select(member_request(ignore_hosts=("b",)), [OTHER])
    cloud.client().delete_instance_info(CONTEXT, "a", MEMBER)
    assert cloud.held(MEMBER) == {}
    assert host_of_server(cloud) == (None, None)
    for service in (one, two):
        service.manager.claims.refresh()
        table = service.manager.replica.table
        assert MEMBER not in table.instances.get(table.rows_of_host("a")[0], {})
    assert hosts_of(two.manager.claims.select(member_request(), [OTHER])) == ["a"]


def test_a_scheduler_that_starts_later_does_not_see_it(cloud):
    cloud.service().manager.delete_instance_info(CONTEXT, "a", MEMBER)
    assert hosts_of(cloud.manager().claims.select(member_request(), [OTHER])) == ["a"]


def test_a_doubled_message_changes_nothing(cloud):
    manager = cloud.service().manager
    manager.delete_instance_info(CONTEXT, "a", MEMBER)
    known = count_changes(cloud)
    manager.delete_instance_info(CONTEXT, "a", MEMBER)
    assert count_changes(cloud) == known


def test_a_message_of_another_host_leaves_it_there(cloud):
    known = count_changes(cloud)
    cloud.service().manager.delete_instance_info(CONTEXT, "b", MEMBER)
    assert host_of_server(cloud) == ("a", "a")
    assert count_changes(cloud) == known


def test_an_instance_without_a_server_costs_no_change(make_cloud):
    cloud = make_cloud({"a": {}}, RAM)
    cloud.service().manager.delete_instance_info(CONTEXT, "a", OTHER)
    assert cloud.held(OTHER) == {}
    assert count_changes(cloud) == count_changes(make_cloud({"a": {}}, RAM))


def test_a_server_younger_than_the_message_stays(cloud):
    held = cloud.held(MEMBER)
    cloud.service().manager.delete_instance_info(
        sent_at(cloud.clock.now() - datetime.timedelta(seconds=9)), "a", MEMBER
    )
    assert (cloud.held(MEMBER), host_of_server(cloud)) == (held, ("a", "a"))
    cloud.service().manager.delete_instance_info(sent_at(LATER), "a", MEMBER)
    assert (cloud.held(MEMBER), host_of_server(cloud)) == ({}, (None, None))


def test_the_source_of_a_move_is_left_by_its_server(moving):
    moving.service().manager.delete_instance_info(CONTEXT, "a", MEMBER)
    assert moving.held(MEMBER, MIGRATION) == {MEMBER: ["b"]}
    assert host_of_server(moving) == (None, None)


def test_the_target_of_a_move_keeps_its_server(moving):
    with moving.engine.begin() as connection:
        connection.execute(servers.update().values(host="b", node="b"))
    moving.service().manager.delete_instance_info(CONTEXT, "b", MEMBER)
    assert moving.held(MEMBER, MIGRATION) == {MEMBER: ["b"], MIGRATION: ["a"]}
    assert host_of_server(moving) == ("b", "b")


def test_its_other_columns_stay(cloud):
    save_server_state(cloud.engine, MEMBER, "active", "deleting", cloud.clock.now())
    cloud.service().manager.delete_instance_info(CONTEXT, "a", MEMBER)
    with cloud.engine.connect() as connection:
        row = connection.execute(select(servers).where(servers.c.uuid == MEMBER)).one()
    assert (row.task_state, row.name) == ("deleting", MEMBER)
