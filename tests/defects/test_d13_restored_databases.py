# SPDX-License-Identifier: Apache-2.0
"""D13: a restored database is noticed, also where the last change has the same number, subject and key as before."""

import sqlite3
from datetime import UTC, datetime

import pytest
from sqlalchemy import text
from tests.flow.cloud import UUID, Cloud

from roost import Fleet
from roost.ledger.claim import Claim
from roost.ledger.ledger import Ledger
from roost.records.fleet_import import import_fleet
from roost.records.services import set_service_flags
from roost.scheduler.options import SchedulerOptions
from roost.scheduler.own_replica import make_host_manager
from roost.store.schema_upgrade import upgrade


def copy_file(source, target):
    with sqlite3.connect(source) as from_file, sqlite3.connect(target) as to_file:
        from_file.backup(to_file)
    from_file.close()
    to_file.close()


def node_of(engine):
    with engine.connect() as connection:
        return connection.scalar(text("SELECT uuid FROM compute_nodes"))


def switch(engine, *states):
    """Disable and enable host a: a change of the same subject and key each time."""
    for is_disabled in states:
        set_service_flags(engine, "a", disabled=is_disabled)


def seen(table):
    return bool(table.numbers["is_disabled"][0]), float(table.numbers["allocated:VCPU"][0])


def test_d13_a_restored_file_is_noticed(tmp_path):
    cloud = Cloud(tmp_path, {"a": {}})
    claims, path = cloud.manager().claims, cloud.engine.url.database
    claims.refresh()
    copy_file(path, f"{path}.backup")
    switch(cloud.engine, True, False)
    cloud.clock.seconds += 1
    claims.refresh()
    cloud.engine.dispose()
    copy_file(f"{path}.backup", path)
    cloud.ledger.claim([Claim(UUID % 5, node_of(cloud.engine), {"VCPU": 16, "MEMORY_MB": 32000})])
    switch(cloud.engine, True)
    cloud.clock.seconds += 10
    claims.refresh()
    assert seen(claims.replica.table) == (True, 16)
    cloud.close()


@pytest.mark.parametrize("later", [(), (True,), (True, False, True), (True, False, True, False, True)])
def test_d13_a_restored_postgresql_database_is_noticed(opened, databases, later):
    """The same with a template: three changes were read, then fewer, as many or more of the same rows follow."""
    address = databases.create("postgresql")
    name = address.rpartition("/")[2]
    engine = opened(address)
    upgrade(engine)
    fleet = {"hosts": [{"host": "a", "vcpus_total": 16, "total_usable_ram_mb": 4096}]}
    import_fleet(engine, Fleet.load(fleet, keeps_records=True), datetime.now(UTC))
    engine.dispose()
    databases.execute("postgresql", f"CREATE DATABASE {name}_backup TEMPLATE {name}")
    manager = make_host_manager(engine, SchedulerOptions(), lambda: datetime.now(UTC), lambda: 0.0)
    manager.load()
    switch(engine, True, False, True)
    assert not manager.refresh().is_full
    engine.dispose()
    databases.execute(
        "postgresql", f"DROP DATABASE {name} WITH (FORCE)", f"CREATE DATABASE {name} TEMPLATE {name}_backup"
    )
    Ledger(engine).release([])
    switch(engine, *later)
    assert manager.refresh().is_full
    assert seen(manager.table) == (bool(later), 0)
