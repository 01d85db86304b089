# SPDX-License-Identifier: Apache-2.0
"""Hosts that are rows only, for scale: the rows that host0 wrote, copied under other names.

No server can be built on them. A process keeps them alive: `programs/keep_alive.py`.
"""

import uuid

import sqlalchemy
from tests.nova_stack.processes import start_program

PREFIX = "paper"
BEAT_SECONDS = 20


def add_paper_hosts(cloud, count):
    """Copy host0 `count` times in nova's and placement's databases: how many there are now."""
    known = cloud.rows("nova_cell1", f"select count(*) from compute_nodes where host like '{PREFIX}%'")[0][0]
    names = [f"{PREFIX}{number:05}" for number in range(known, known + count)]
    uuids = {name: str(uuid.uuid4()) for name in names}
    _copy_nova_rows(cloud, names, uuids)
    _copy_placement_rows(cloud, names, uuids)
    if not (cloud.dir / "pids" / "paper-hosts").exists():
        address = cloud.env["databases"]["nova_cell1"]
        start_program(cloud.dir, "paper-hosts", "keep_alive.py", cloud.dir / "nova.conf", address, BEAT_SECONDS)
    return {"hosts": known + count}


def _copy_nova_rows(cloud, names, uuids):
    _copy(
        cloud,
        ("nova_cell1", "services", "host = 'host0' and topic = 'compute'"),
        names,
        lambda name: {"host": name, "uuid": str(uuid.uuid4())},
    )
    _copy(
        cloud,
        ("nova_cell1", "compute_nodes", "host = 'host0' and deleted = 0"),
        names,
        lambda name: {"host": name, "hypervisor_hostname": name, "uuid": uuids[name], "host_ip": "127.0.0.1"},
    )
    _copy(cloud, ("nova_api", "host_mappings", "host = 'host0'"), names, lambda name: {"host": name})


def _copy_placement_rows(cloud, names, uuids):
    provider = ("placement", "resource_providers", "name = 'host0'")
    _copy(cloud, provider, names, lambda name: {"name": name, "uuid": uuids[name]})
    cloud.rows("placement", f"update resource_providers set root_provider_id = id where name like '{PREFIX}%'")
    numbers = dict(cloud.rows("placement", f"select name, id from resource_providers where name like '{PREFIX}%'"))
    of_host0 = "resource_provider_id = (select id from resource_providers where name = 'host0')"
    for table in ("inventories", "resource_provider_traits"):
        _copy(cloud, ("placement", table, of_host0), names, lambda name: {"resource_provider_id": numbers[name]})


def _copy(cloud, source, names, change):
    """Insert the rows of `source` (database, table, condition) once for each name, with what `change` says."""
    database, table, condition = source
    engine = cloud.engine(database)
    reflected = sqlalchemy.Table(table, sqlalchemy.MetaData(), autoload_with=engine)
    with engine.begin() as connection:
        found = connection.execute(sqlalchemy.text(f"select * from {table} where {condition}")).mappings().all()
        rows = [{**row, **change(name)} for name in names for row in found]
        for row in rows:
            row.pop("id", None)
        connection.execute(sqlalchemy.insert(reflected), rows)
