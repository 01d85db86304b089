# SPDX-License-Identifier: Apache-2.0
"""Dry runs leave the database alike, to the last byte of a dump of PostgreSQL."""

import subprocess

import pytest
from tests.flow.moving_cloud import LARGE, MovingCloud

from roost.errors import BadInput, RemoteNoValidHost
from roost.store.engine import open_engine, parse_database_url
from roost.store.options import DatabaseOptions
from roost.store.schema_upgrade import upgrade


@pytest.fixture
def address(databases):
    return databases.create("postgresql")


@pytest.fixture
def cloud(address, tmp_path):
    engine = open_engine(DatabaseOptions(connection=address))
    upgrade(engine)
    made = MovingCloud(tmp_path, ("a", "b", "c"), engine=engine)
    yield made
    made.close()


def dump(address):
    """Everything in the database, sequences included; the random words at both ends of a dump are left out."""
    url = parse_database_url(address).set(drivername="postgresql").render_as_string(hide_password=False)
    done = subprocess.run(["pg_dump", url], capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if not line.startswith(("\\restrict", "\\unrestrict"))]


def test_no_dry_run_writes_anything(cloud, address):
    running, resized, stranded = (cloud.build(host) for host in ("a", "a", "c"))
    resized = cloud.ask("resize_server", resized, flavor=LARGE)
    shelved = cloud.ask("shelve_server", cloud.build("b"))
    client = cloud.client()
    client.set_host("c", disabled=True, reason="fire", forced_down=True)
    cloud.silence(*cloud.hosts)
    before = dump(address)
    assert sum(line.startswith("COPY") for line in before) > 10

    new = {"name": "new", "flavor": "small", "count": 2}
    client.create_servers(new, dry_run=True)
    client.create_servers(new | {"group": "apart"}, dry_run=True)
    client.create_servers(new | {"availability_zone": "nova:a"}, dry_run=True)
    with pytest.raises(RemoteNoValidHost):
        client.create_servers(new | {"flavor": "huge"}, dry_run=True)
    client.resize_server(running.uuid, "small", dry_run=True)
    client.migrate_server_cold(running.uuid, dry_run=True)
    client.migrate_server_cold(running.uuid, host="b", dry_run=True)
    client.live_migrate_server(running.uuid, dry_run=True)
    with pytest.raises(BadInput):
        client.evacuate_server(running.uuid, dry_run=True)
    client.evacuate_server(stranded.uuid, dry_run=True)
    client.evacuate_server(stranded.uuid, host="a", dry_run=True)
    client.confirm_resize(resized.uuid, dry_run=True)
    client.revert_resize(resized.uuid, dry_run=True)
    client.unshelve_server(shelved.uuid, dry_run=True)
    client.shelve_server(running.uuid, dry_run=True)
    client.rebuild_server(running.uuid, dry_run=True)
    client.stop_server(running.uuid, dry_run=True)
    client.delete_server(running.uuid, dry_run=True)
    client.set_host("a", disabled=True, reason="x", dry_run=True)
    client.get_snapshot()
    assert dump(address) == before

    client.stop_server(running.uuid)
    assert dump(address) != before
