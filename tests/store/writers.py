# SPDX-License-Identifier: Apache-2.0
"""Writes hosts, instances and aggregates as their owners do: plain statements, and a word in `changes`, last."""

import contextlib
import datetime

from sqlalchemy import delete, insert, select, update

from roost.store.change_log import AGGREGATES, NODES, SERVERS, SERVICES, USAGE, Change, record_changes, usage_key
from roost.store.engine import BEGINS_WRITING
from roost.store.schema.fleet import (
    aggregate_hosts,
    aggregate_metadata,
    aggregates,
    allocations,
    compute_nodes,
    consumers,
    inventories,
    node_traits,
    services,
)
from roost.store.schema.servers import servers

NOW = datetime.datetime(2026, 11, 15, 12, 0, tzinfo=datetime.UTC)
USUAL = {"VCPU": 16, "MEMORY_MB": 32768, "DISK_GB": 500}
SMALL = {"VCPU": 1, "MEMORY_MB": 1024, "DISK_GB": 10}
REPORTED = {
    "vcpus": 16,
    "memory_mb": 32768,
    "local_gb": 500,
    "vcpus_used": 0,
    "memory_mb_used": 0,
    "local_gb_used": 0,
    "free_ram_mb": 32768,
    "free_disk_gb": 500,
    "running_vms": 0,
    "current_workload": 0,
    "hypervisor_type": "QEMU",
}


def uuid_like(number):
    return f"00000000-0000-4000-8000-{number:012}"


class Writer:
    """A transaction: what is written in it, and what changes with it."""

    def __init__(self, connection):
        self.connection = connection
        self.changes = []

    def execute(self, statement):
        return self.connection.execute(statement)

    def note(self, subject, key):
        self.changes.append(Change(subject, str(key)))

    # --- hosts ---

    def service(self, host, **columns):
        """Static unless something else is said."""
        values = {"uuid": f"s-{host}"[:36], "host": host, "binary": "nova-compute", "is_static": True} | columns
        self.execute(insert(services).values(values))
        self.note(SERVICES, host)

    def change_service(self, host, is_heartbeat=False, **columns):
        self.execute(update(services).where(services.c.host == host).values(columns))
        if not is_heartbeat:
            self.note(SERVICES, host)

    def drop_service(self, host):
        self.execute(delete(services).where(services.c.host == host))
        self.note(SERVICES, host)

    def node(self, host, node=None, traits=(), resources=USUAL, number=None, **columns):
        """A node that reported; its number."""
        names = {"host": host, "hypervisor_hostname": node or host, "uuid": f"n-{host}-{node or ''}"[:36]}
        numbered = {} if number is None else {"id": number}
        done = self.execute(insert(compute_nodes).values(REPORTED | names | numbered | columns))
        (node_id,) = done.inserted_primary_key
        self.inventories(node_id, resources)
        if traits:
            self.connection.execute(insert(node_traits), [{"node_id": node_id, "trait": each} for each in traits])
        self.note(NODES, node_id)
        return node_id

    def inventories(self, node_id, resources):
        for name, total in resources.items():
            amounts = total if isinstance(total, dict) else {"total": total}
            self.execute(insert(inventories).values(node_id=node_id, resource_class=name, **amounts))
        self.note(NODES, node_id)

    def host(self, host, node=None, **columns):
        """A node and its service."""
        if not self.execute(select(services.c.id).where(services.c.host == host)).first():
            self.service(host)
        return self.node(host, node, **columns)

    def report(self, node_id, **columns):
        self.lock(node_id)
        self.execute(update(compute_nodes).where(compute_nodes.c.id == node_id).values(columns))
        self.note(NODES, node_id)

    def lock(self, *node_ids):
        wanted = select(compute_nodes.c.id).where(compute_nodes.c.id.in_(node_ids)).order_by(compute_nodes.c.id)
        self.execute(wanted.with_for_update())

    def drop_node(self, node_id):
        self.execute(delete(allocations).where(allocations.c.node_id == node_id))
        self.execute(delete(inventories).where(inventories.c.node_id == node_id))
        self.execute(delete(node_traits).where(node_traits.c.node_id == node_id))
        self.execute(delete(compute_nodes).where(compute_nodes.c.id == node_id))
        self.note(NODES, node_id)

    # --- instances ---

    def consumer(self, uuid, kind="instance", details=None, project_id="p1"):
        values = {"uuid": uuid, "kind": kind, "details": details, "project_id": project_id}
        self.execute(insert(consumers).values(values))

    def hold(self, node_id, uuid, amounts=SMALL):
        """The consumer takes what is there; it is counted as the ledger does."""
        self.lock(node_id)
        for name, amount in amounts.items():
            row = {"consumer_uuid": uuid, "node_id": node_id, "resource_class": name, "used": amount}
            self.execute(insert(allocations).values(row))
        self.count(node_id, amounts, 1)
        self.note(USAGE, usage_key(node_id, uuid))

    def instance(self, node_id, uuid, amounts=SMALL, **columns):
        self.consumer(uuid, **columns)
        self.hold(node_id, uuid, amounts)

    def let_go(self, node_id, uuid, amounts=SMALL):
        self.lock(node_id)
        where = allocations.c.node_id == node_id, allocations.c.consumer_uuid == uuid
        if not self.execute(delete(allocations).where(*where)).rowcount:
            return
        if not self.execute(select(allocations.c.used).where(allocations.c.consumer_uuid == uuid)).first():
            self.execute(delete(consumers).where(consumers.c.uuid == uuid))
        self.count(node_id, amounts, -1)
        self.note(USAGE, usage_key(node_id, uuid))

    def count(self, node_id, amounts, sign):
        for name, amount in amounts.items():
            where = inventories.c.node_id == node_id, inventories.c.resource_class == name
            self.execute(update(inventories).where(*where).values(used=inventories.c.used + sign * amount))
        column, memory, disk = compute_nodes.c, amounts.get("MEMORY_MB", 0), amounts.get("DISK_GB", 0)
        figures = {
            "vcpus_used": column.vcpus_used + sign * amounts.get("VCPU", 0),
            "memory_mb_used": column.memory_mb_used + sign * memory,
            "free_ram_mb": column.free_ram_mb - sign * memory,
            "local_gb_used": column.local_gb_used + sign * disk,
            "free_disk_gb": column.free_disk_gb - sign * disk,
            "running_vms": column.running_vms + sign,
        }
        self.execute(update(compute_nodes).where(column.id == node_id).values(figures))

    def server(self, uuid, host=None, node=None, **columns):
        values = {"uuid": uuid, "name": uuid, "host": host, "node": node or host, "project_id": "p2"} | columns
        self.execute(insert(servers).values(values))
        self.note(SERVERS, uuid)

    def move_server(self, uuid, host, node=None):
        self.execute(update(servers).where(servers.c.uuid == uuid).values(host=host, node=node or host))
        self.note(SERVERS, uuid)

    def drop_server(self, uuid):
        self.execute(delete(servers).where(servers.c.uuid == uuid))
        self.note(SERVERS, uuid)

    # --- aggregates ---

    def aggregate(self, name, hosts=(), **metadata):
        done = self.execute(insert(aggregates).values(name=name, uuid=f"a-{name}"[:36]))
        (number,) = done.inserted_primary_key
        for host in hosts:
            self.join(number, host)
        for key, value in metadata.items():
            self.describe(number, key, value)
        self.note(AGGREGATES, number)
        return number

    def join(self, number, host):
        self.execute(insert(aggregate_hosts).values(aggregate_id=number, host=host))
        self.note(AGGREGATES, number)

    def describe(self, number, key, value):
        where = aggregate_metadata.c.aggregate_id == number, aggregate_metadata.c.key == key
        self.execute(delete(aggregate_metadata).where(*where))
        self.execute(insert(aggregate_metadata).values(aggregate_id=number, key=key, value=value))
        self.note(AGGREGATES, number)

    def drop_aggregate(self, number):
        for table in (aggregate_hosts, aggregate_metadata):
            self.execute(delete(table).where(table.c.aggregate_id == number))
        self.execute(delete(aggregates).where(aggregates.c.id == number))
        self.note(AGGREGATES, number)


@contextlib.contextmanager
def writing(engine):
    """A transaction that tells what it changed, and commits."""
    with engine.connect() as connection:
        connection = connection.execution_options(**BEGINS_WRITING)
        with connection.begin():
            writer = Writer(connection)
            yield writer
            record_changes(connection, list(dict.fromkeys(writer.changes)))
