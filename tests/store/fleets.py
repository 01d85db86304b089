# SPDX-License-Identifier: Apache-2.0
"""Small fleets for the tests of import, export and reports, and what is left of them in the tables."""

import datetime

from sqlalchemy import delete, select
from tests.store.rows import contents

from roost.records.fleet_import import import_fleet
from roost.sources.fleet_file import Fleet
from roost.store.change_log import Change
from roost.store.schema import metadata
from roost.store.schema.fleet import allocations, compute_nodes, consumers, inventories
from roost.store.schema.history import changes

NOW = datetime.datetime(2026, 11, 15, 12, 0, tzinfo=datetime.UTC)
LATER = NOW + datetime.timedelta(hours=1)
UUID = "6a0b7c1e-5ef2-4a3e-9d7b-0c9b8f7a1e%02d"

INSTANCE = {
    "uuid": UUID % 1,
    "project_id": "p1",
    "flavor_id": "f-1",
    "image_props": {"os_distro": "debian"},
    "resources": {"VCPU": 2, "MEMORY_MB": 1024, "DISK_GB": 10},
}
HOST = {"vcpus_total": 8, "total_usable_ram_mb": 16384, "total_usable_disk_gb": 100}


def document(**more):
    """A fleet with some of everything."""
    return {
        "hosts": [
            {"host": "a", **HOST, "traits": ["CUSTOM_A", "HW_CPU_X86_AVX2"], "instances": [INSTANCE, UUID % 2]},
            {
                "host": "b",
                **HOST,
                "vcpus_used": 3,
                "free_ram_mb": 8192,
                "free_disk_mb": 51200,
                "reserved_ram_mb": 512,
            },
            {"host": "metal", "node": "n1", "hypervisor_type": "ironic", **HOST},
            {"host": "metal", "node": "n2", "hypervisor_type": "ironic", **HOST, "resources": {"PGPU": {"total": 4}}},
        ],
        "aggregates": [
            {"name": "north", "metadata": {"availability_zone": "north", "ssd": "true"}, "hosts": ["a", "b"]},
            {"name": "empty"},
        ],
        "flavors": [
            {"name": "small", "id": "f-1", "vcpus": 2, "memory_mb": 1024, "root_gb": 10, "extra_specs": {"a:b": "1"}},
            {"name": "large", "flavorid": "l", "vcpus": 8, "memory_mb": 8192, "swap": 512},
        ],
        "images": [
            {"name": "debian", "properties": {"os_distro": "debian", "hw_numa_nodes": 1, "hw_numa_cpus.0": "0-3"}},
            {"name": "other", "id": "image-1", "min_ram": 512, "size": 2**40},
        ],
        "server_groups": [
            {"name": "apart", "policy": "anti-affinity", "members": [UUID % 1], "rules": {"max_server_per_host": 2}},
        ],
    } | more


def one_host(**more):
    """A fleet of the host `a` and nothing else."""
    return {"hosts": [{"host": "a", **HOST, **more}]}


def bring(engine, fleet, now=NOW, **more):
    """Import a fleet given as a dict."""
    return import_fleet(engine, Fleet.load(fleet, keeps_records=True), now, **more)


def tables(engine):
    """All rows of all tables."""
    with engine.connect() as connection:
        return contents(connection)


def read(engine, table, *columns):
    """The rows of a table, sorted."""
    with engine.connect() as connection:
        return sorted(tuple(row) for row in connection.execute(select(*(columns or (table,)))))


def one(engine, table, **where):
    """One row."""
    wanted = select(table).where(*(table.c[name] == value for name, value in where.items()))
    with engine.connect() as connection:
        return connection.execute(wanted).one()


def changes_since(engine, known=0):
    """The changes after so many, as a set."""
    rows = read(engine, changes)
    return {Change(subject, key) for _, subject, key, _ in rows[known:]}


def count_changes(engine):
    return len(read(engine, changes))


def write(engine, *statements):
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(statement)


def claim(engine, uuid, host, amounts, details=None):
    """What the ledger would do, as far as allocations go."""
    node = one(engine, compute_nodes, host=host)
    rows = [
        {"consumer_uuid": uuid, "node_id": node.id, "resource_class": name, "used": amount}
        for name, amount in amounts.items()
    ]
    used = [
        inventories.update()
        .where(inventories.c.node_id == node.id, inventories.c.resource_class == name)
        .values(used=inventories.c.used + amount)
        for name, amount in amounts.items()
    ]
    consumer = consumers.insert().values(uuid=uuid, kind="instance", details=details)
    write(engine, consumer, allocations.insert().values(rows), *used)


def check_sums(engine):
    """What is used of an inventory is the sum of the allocations."""
    sums = {}
    for node_id, name, used in read(
        engine,
        allocations,
        allocations.c.node_id,
        allocations.c.resource_class,
        allocations.c.used,
    ):
        sums[node_id, name] = sums.get((node_id, name), 0) + used
    table = inventories.c
    for node_id, name, used in read(engine, inventories, table.node_id, table.resource_class, table.used):
        assert used == sums.get((node_id, name), 0), (node_id, name)


def wipe(engine):
    """Empty all tables."""
    with engine.begin() as connection:
        for table in reversed(metadata.sorted_tables):
            connection.execute(delete(table))
