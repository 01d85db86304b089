# SPDX-License-Identifier: Apache-2.0
"""D44: what servers leave in the database is removed after a while, also what is left of servers that live."""

import pytest
from sqlalchemy import func, select
from tests.flow.moving_cloud import LARGE, SMALL, MovingCloud

from roost.store.schema import metadata

LONG = 40 * 86400
"""Seconds after which nothing is kept any more."""
BY_NUMBER = {"changes"}
"""Tables of which the latest rows are kept, however old they are."""
CLEANING = ("guests left behind", "leaked claims and old records", "prune old decisions", "prune old changes")


@pytest.fixture
def cloud(tmp_path):
    cloud = MovingCloud(tmp_path)
    cloud.send_heartbeats(cloud.hosts)
    yield cloud
    cloud.close()


def count_rows(cloud):
    with cloud.engine.connect() as connection:
        tables = (each for name, each in metadata.tables.items() if name not in BY_NUMBER)
        return {each.name: connection.scalar(select(func.count()).select_from(each)) for each in tables}


def live_and_move(cloud, server):
    """What happens to a server in its life, with its failures."""
    cloud.ask("stop_server", server)
    cloud.ask("start_server", server)
    for end, flavor in (("confirm_resize", LARGE), ("revert_resize", SMALL)):
        cloud.ask("resize_server", server, flavor=flavor)
        cloud.ask(end, server)
        cloud.ask("resize_server", server, flavor={**LARGE, "memory_mb": 999999})
    cloud.ask("migrate_server_cold", server)
    cloud.ask("confirm_resize", server)
    cloud.ask("live_migrate_server", server)
    cloud.ask("rebuild_server", server)
    cloud.ask("shelve_server", server)
    cloud.ask("unshelve_server", server)


def wait_and_clean_up(cloud):
    """All that the services remove, after a long time."""
    scheduler = cloud.schedulers[-1]
    for task in scheduler.background_tasks():
        if task.name == "record decisions":
            task.run()
    cloud.pass_time(LONG)
    for task in (*cloud.conductors[-1].tasks(), *scheduler.background_tasks()):
        if task.name in CLEANING:
            task.run()


def test_a_server_that_lives_is_all_that_is_left_of_what_it_went_through(cloud):
    server = cloud.build("a")
    wait_and_clean_up(cloud)
    before = count_rows(cloud)
    live_and_move(cloud, server)
    assert count_rows(cloud)["migrations"] > 3
    wait_and_clean_up(cloud)
    after = count_rows(cloud)
    assert after == before | {"server_faults": 1}  # the latest stays


def test_nothing_is_left_of_servers_that_are_deleted(cloud):
    server = cloud.build("a")
    wait_and_clean_up(cloud)
    before = count_rows(cloud)
    uuids = [*cloud.boot(count=2, group="apart"), *cloud.boot(flavor="huge")]
    live_and_move(cloud, cloud.build("a"))
    for each in cloud.store.list_page():
        if each.uuid != server.uuid:
            cloud.ask("delete_server", each)
    assert count_rows(cloud)["servers"] >= len(uuids)
    wait_and_clean_up(cloud)
    after = count_rows(cloud)
    assert {name: (before[name], after[name]) for name in before if before[name] != after[name]} == {}
