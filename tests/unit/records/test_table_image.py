# SPDX-License-Identifier: Apache-2.0
"""A table and what changes in it survive being written as JSON text and read again."""

import datetime
import json

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.flow.cloud import state_of

from roost.hosts import HostTable, Instance
from roost.hosts.table import KEPT_CHANGES
from roost.hosts.updates import set_aggregates, set_instances, set_service
from roost.model import Aggregate, Flavor, Service
from roost.records.decision_codec import image_of, table_of
from roost.records.table_changes import (
    OLDEST_CHECKPOINT_SECONDS,
    ChangeGroup,
    Checkpoint,
    TableObserver,
    apply_changes,
    changes_to_json,
)
from roost.testing import make_hosts, make_spec
from roost.testing.strategies.hosts import host_records


def as_text_and_back(data):
    return json.loads(json.dumps(data))


def restored(table):
    return table_of(as_text_and_back(image_of(table)))


def assert_equal(found, table):
    assert state_of(found) == state_of(table)
    assert found.known_aggregates == table.known_aggregates
    assert found.uuids == table.uuids
    assert found.granular_classes == table.granular_classes
    assert {name: column.dtype for name, column in found.numbers.items()} == {
        name: column.dtype for name, column in table.numbers.items()
    }


TABLES = st.lists(host_records(), min_size=1, max_size=5, unique_by=lambda each: (each.host, each.nodename)).map(
    HostTable.of
)


@settings(max_examples=60, deadline=None)
@given(TABLES)
def test_a_table_is_restored_from_its_image(table):
    assert_equal(restored(table), table)


def test_all_that_is_known_of_an_instance_is_restored():
    moment = datetime.datetime(2026, 11, 18, 21, 0, 0, 5, tzinfo=datetime.UTC)
    flavor = Flavor(2, 4096, root_gb=20, name="m1", id=7, flavorid="abc", extra_specs={"hw:cpu_policy": "dedicated"})
    full = Instance(
        "6a0b7c1e-5ef2-4a3e-9d7b-0c9b8f7a1e01",
        "blue",
        7,
        {"os_distro": "debian"},
        {"VCPU": 2},
        "image-1",
        flavor,
        {"key": "value"},
        moment,
        "2026-11-18 21:00:00",
    )
    table = make_hosts(host=["a"]).table.copy()
    set_instances(table, 0, [full], ())
    (found,) = restored(table).instances[0].values()
    assert found == full
    assert (found.recorded_at, found.created_at, found.flavor.extra_specs) == (
        full.recorded_at,
        moment,
        flavor.extra_specs,
    )


# --- changes -----------------------------------------------------------------------------------------


class Follower:
    """Keeps what an observer captures, and restores the table at any position."""

    def __init__(self, table):
        self.table, self.now = table, 0.0
        self.observer = TableObserver(lambda: self.now)
        self.checkpoints, self.groups = {}, []

    def observe(self):
        position, change = self.observer.observe(self.table)
        if isinstance(change, Checkpoint):
            self.checkpoints[position] = as_text_and_back(image_of(change.table))
        elif isinstance(change, ChangeGroup):
            self.groups.append(change)
        return position

    def at(self, position):
        start = max(each for each in self.checkpoints if each <= position)
        table = table_of(self.checkpoints[start])
        apply_changes(table, as_text_and_back(changes_to_json(self.groups)), start, position)
        return table


ZONE = Aggregate("zone", {"availability_zone": "z"}, ("a",), 1)
UUID = "6a0b7c1e-5ef2-4a3e-9d7b-0c9b8f7a1e%02d"
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["consume", "release", "service", "aggregate", "instance", "update", "wait"]),
        st.integers(0, 3),
    ),
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(TABLES, STEPS, st.data())
def test_each_state_is_restored_whatever_happens_afterwards(table, steps, data):
    follower, placed, seen = Follower(table), [], []
    for number, (step, at) in enumerate(steps):
        row = at % len(table.names)
        if step == "consume":
            beyond = {"resources:VGPU": "1"} if at == 3 else {}  # of a child, so of no column (D23)
            spec = make_spec(vcpus=1, memory_mb=10 + at, instance_uuid=UUID % number, extra_specs=beyond)
            placed.append((row, table.consume(row, spec)))
        elif step == "release" and placed:
            table.release(*placed.pop())
        elif step == "service":
            set_service(table, row, Service(disabled=bool(at), disabled_reason="why"))
        elif step == "aggregate":
            set_aggregates(table, row, (ZONE,) if at else ())
            table.known_aggregates = (ZONE, *table.known_aggregates)
        elif step == "instance":
            set_instances(table, row, [Instance(UUID % (50 + at), "blue", at)], [UUID % (51 + at)])
        elif step == "update":
            record = data.draw(host_records())
            table.update(row, record)
        else:
            follower.now += 1000.0
        seen.append((follower.observe(), restored(table)))
    for position, then in seen:
        assert_equal(follower.at(position), then)


def test_a_checkpoint_replaces_many_changes():
    table = make_hosts(host=["a", "b"]).table.copy()
    follower = Follower(table)
    first = follower.observe()
    for _ in range(3):
        for _ in range(KEPT_CHANGES + 1):
            table.changes.note(0, frozenset({"vcpus_used"}))
        last = follower.observe()
    assert (first, last) == (1, 4)
    assert sorted(follower.checkpoints) == [1, 2, 3, 4]  # more changes each time than the log of the table keeps


def test_nothing_is_captured_while_nothing_changes():
    follower = Follower(make_hosts(host=["a"]).table.copy())
    assert [follower.observe() for _ in range(3)] == [1, 1, 1]
    follower.now += 10_000.0
    assert follower.observe() == 1
    follower.now += OLDEST_CHECKPOINT_SECONDS  # pruning may have removed the checkpoint
    assert (follower.observe(), sorted(follower.checkpoints)) == (2, [1, 2])
