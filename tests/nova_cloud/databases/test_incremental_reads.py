# SPDX-License-Identifier: Apache-2.0
"""Changes that were read, added up, are what the database has: with late ones, and with ties in a second."""

import random
import uuid
from datetime import timedelta

import pytest

HOSTS = [f"host{number}" for number in range(4)]


class Replica:
    """Changes of a cell, added up."""

    def __init__(self):
        self.nodes, self.services, self.heartbeats, self.instances = {}, {}, {}, {}

    def apply(self, changes):
        if changes.is_full:
            self.__init__()
        self.nodes |= {node.id: node for node in changes.nodes}
        self.services |= changes.services
        self.heartbeats |= changes.heartbeats
        self.instances = {host: each for host, each in (self.instances | changes.instances).items() if each}
        for number in changes.removed_nodes:
            del self.nodes[number]
        for host in changes.removed_services:
            del self.services[host], self.heartbeats[host]
        return self

    def content(self, heartbeats=True):
        flags = {host: each._replace(last_seen=None, report_count=0) for host, each in self.services.items()}
        return self.nodes, flags, self.heartbeats if heartbeats else None, self.instances


class RandomNova:
    """Writes to a cell's database as nova does: a change sets `updated_at`, and a deletion keeps the row."""

    def __init__(self, stored, clock, seed):
        self.stored, self.clock, self.random = stored, clock, random.Random(seed)
        self.node = stored.rows("compute_nodes", host="host1")[0]
        self.service = stored.rows("services", host="host1")[0]
        self.instance = stored.rows("instances", deleted=0)[0]
        self.extra = stored.rows("instance_extra", instance_uuid=self.instance["uuid"])[0]
        self.number = 100 * (seed + 1)

    def moment(self):
        """Now, or as a transaction says that began up to four seconds ago."""
        late = self.random.choice([0, 0, self.random.uniform(0, 4)])
        return (self.clock.now() - timedelta(seconds=late)).replace(tzinfo=None)

    def new(self, row, **values):
        self.number += 1
        fresh = {"id": self.number, "uuid": str(uuid.UUID(int=self.random.getrandbits(128))), "updated_at": None}
        return row | fresh | {"created_at": self.moment()} | values

    def pick(self, name):
        live = self.stored.rows(name, deleted=0)
        return self.random.choice(
            [row for row in live if row.get("binary", "nova-compute") == "nova-compute"] or [None]
        )

    def change(self, name, /, **values):
        if row := self.pick(name):
            self.stored.change(name, {"id": row["id"]}, **({"updated_at": self.moment()} | values))

    def delete(self, name):
        row = self.pick(name)
        if len(self.stored.rows(name, deleted=0)) > 3:
            self.stored.change(name, {"id": row["id"]}, deleted=row["id"], deleted_at=self.moment())

    def use_node(self):
        used = self.random.randrange(1000)
        self.change("compute_nodes", vcpus_used=used, stats=f'{{"num_instances": "{used}", "io_workload": "1"}}')

    def add_node(self):
        name = f"new{self.number}"
        self.stored.add("compute_nodes", self.new(self.node, host=name, hypervisor_hostname=name))

    def add_service(self):
        self.stored.add("services", self.new(self.service, host=f"new{self.number}", last_seen_up=None))

    def beat(self):
        now = self.moment()
        self.change("services", last_seen_up=now, updated_at=now, report_count=self.random.randrange(10**6))

    def set_flags(self):
        is_disabled = self.random.random() < 0.5
        reason = self.random.choice(["broken", None]) if is_disabled else None
        self.change("services", disabled=is_disabled, disabled_reason=reason, forced_down=self.random.random() < 0.3)

    def boot(self):
        row = self.new(self.instance, host=None, node=None, vm_state="building", task_state="scheduling")
        self.stored.add("instances", row)
        self.stored.add("instance_extra", self.extra | {"id": row["id"], "instance_uuid": row["uuid"]})
        if self.random.random() < 0.7:
            host = self.random.choice(HOSTS)
            place = {"host": host, "node": host, "updated_at": self.moment()}
            self.stored.change("instances", {"id": row["id"]}, **place)

    def move(self):
        host = self.random.choice([*HOSTS, None])
        self.change("instances", host=host, node=host)

    def set_state(self):
        self.change("instances", vm_state=self.random.choice(["active", "stopped"]), task_state=None)

    def delete_instance(self):
        """In two steps, of which a read may see the first alone."""
        row, moment = self.pick("instances"), self.moment()
        self.stored.change("instances", {"id": row["id"]}, vm_state="deleted", updated_at=moment)
        if self.random.random() < 0.7:
            self.stored.change("instances", {"id": row["id"]}, deleted=row["id"], deleted_at=moment)

    def act(self):
        often = [self.use_node, self.beat, self.boot, self.move, self.set_state, self.set_flags] * 3
        seldom = [self.add_node, self.add_node, self.add_service, self.add_service, self.delete_instance]
        seldom += [lambda: self.delete("compute_nodes"), lambda: self.delete("services")]
        self.random.choice(often + seldom)()

    def act_oddly(self):
        """What no watermark finds: a clock an hour behind, and rows that an operator archived."""
        long_ago = self.clock.now().replace(tzinfo=None) - timedelta(hours=1)
        self.change("compute_nodes", vcpus_used=self.random.randrange(1000), updated_at=long_ago)
        self.change("instances", host="host3", node="host3", updated_at=long_ago)
        self.change("services", last_seen_up=long_ago, updated_at=long_ago)
        self.stored.remove("compute_nodes", id=self.pick("compute_nodes")["id"])
        gone = self.pick("instances")
        self.stored.remove("instance_extra", instance_uuid=gone["uuid"])
        self.stored.remove("instance_system_metadata", instance_uuid=gone["uuid"])
        self.stored.remove("instances", id=gone["id"])


@pytest.fixture(scope="module")
def changing_cell(fill, kind):
    return fill(kind, "cell")


@pytest.mark.parametrize("seed", range(2))
def test_changes_add_up_to_a_full_read(make_reader, changing_cell, clock, seed):
    clock.turn(1000 * seed)
    nova = RandomNova(changing_cell, clock, seed)
    reader, replica, reference = make_reader(changing_cell), Replica(), make_reader(changing_cell)
    for step in range(30):
        heartbeats = step % 3 != 0
        found = replica.apply(reader.read_changes(heartbeats=heartbeats))
        whole = Replica().apply(reference.read_all())
        assert found.content(heartbeats) == whole.content(heartbeats), f"seed {seed}, step {step}"
        clock.turn(nova.random.choice([0, 0.1, 0.4, 1.3]))
        for _ in range(nova.random.randrange(4)):
            nova.act()


def test_what_no_watermark_finds_is_found_when_all_rows_are_compared(make_reader, changing_cell, clock):
    clock.turn(5000)
    reader, replica, nova = make_reader(changing_cell), Replica(), RandomNova(changing_cell, clock, 7)
    for _ in range(5):
        nova.boot()
    changing_cell.change("services", {}, disabled=False, disabled_reason=None, forced_down=False)
    replica.apply(reader.read_changes())
    clock.turn(31)
    nova.act_oddly()
    assert not reader.read_changes()
    clock.turn(30)
    replica.apply(reader.read_changes())
    assert replica.content() == Replica().apply(make_reader(changing_cell).read_all()).content()
