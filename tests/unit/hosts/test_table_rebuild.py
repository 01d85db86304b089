# SPDX-License-Identifier: Apache-2.0
"""Whatever is learned bit by bit, the table is the one that the same records make from scratch."""

import random
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.store.comparing import assert_same_table

from roost.errors import BadInput, NoValidHost
from roost.hosts import HostRecord, HostTable, Instance, Inventory
from roost.hosts.record import number_values
from roost.hosts.updates import Usage, rebuild_table, set_aggregates, set_service, set_usage
from roost.model import Aggregate, Service
from roost.scheduler.all_options import read_options
from roost.scheduler.build import build_pipeline
from roost.testing import make_hosts, make_records, make_spec
from roost.testing.strategies.hosts import COLUMNS

PAIRS = [(f"host{number}", node) for number in range(4) for node in ("n1", "n2")]
AGGREGATES = [Aggregate(f"agg{number}", {"availability_zone": f"az{number}"}, id=number) for number in range(3)]
FIELDS = {name: COLUMNS[name] for name in COLUMNS if name not in ("metrics", "allocation_candidates", "service")}
SERVICES = st.builds(Service, disabled=st.booleans(), forced_down=st.booleans(), up=st.booleans())
IN_SOME = st.lists(st.sampled_from(AGGREGATES), unique=True).map(tuple)
INVENTORIES = st.builds(Inventory, st.integers(0, 8), min_unit=st.sampled_from([1, 1, 2]))
RESOURCES = st.dictionaries(st.sampled_from(["CUSTOM_FPGA", "VGPU", "VCPU"]), INVENTORIES, max_size=2)
HELD = st.dictionaries(st.sampled_from(["VCPU", "MEMORY_MB", "DISK_GB", "VGPU"]), st.integers(0, 9))


@st.composite
def records(draw, pair):
    names = draw(st.sets(st.sampled_from(sorted(FIELDS)), max_size=6))
    fields = {name: draw(FIELDS[name]) for name in sorted(names)}
    uuid = draw(st.sampled_from(["", "u1", "u2"]))
    shape = {"service": draw(SERVICES), "aggregates": draw(IN_SOME), "resources": draw(RESOURCES)}
    return HostRecord(*pair, **{"uuid": uuid} | shape | {"allocations": draw(HELD)} | fields)


def usage_of(record, gone=()):
    values = number_values([record])
    names = [name for name in Usage.__dataclass_fields__ if name in values]
    numbers = {name: values[name][0] for name in names}
    return Usage(**numbers, allocated=record.allocated, added=record.instances, removed=gone)


def with_usage(record, other):
    """The record with what is used of the other host, and who is there."""
    numbers = number_values([other])
    names = [name for name in Usage.__dataclass_fields__ if name in numbers]
    used = {name: numbers[name][0] for name in names}
    return replace(record, **used, allocations=other.allocations, instances=other.instances)


class Learner:
    """A table that learns bit by bit, and the records that it should be made of."""

    def __init__(self, data):
        self.data = data
        self.known = {}
        self.table = HostTable.of([])

    def draw_record(self, pair):
        return self.data.draw(records(pair))

    def step(self):
        steps = [self.reshape, self.report, self.use, self.serve, self.gather]
        self.data.draw(st.sampled_from(steps if self.known else steps[:1]))()

    def some_row(self):
        row = self.data.draw(st.integers(0, len(self.table.names) - 1))
        return row, self.table.names[row]

    def reshape(self):
        gone = self.data.draw(st.sets(st.sampled_from(sorted(self.known)), max_size=2)) if self.known else set()
        absent = [pair for pair in PAIRS if pair not in self.known]
        new = self.data.draw(st.sets(st.sampled_from(absent), max_size=3)) if absent else set()
        found = {pair: self.draw_record(pair) for pair in sorted(new)}
        rows = {self.table.names.index(pair) for pair in gone}
        self.table = rebuild_table(self.table, rows, list(found.values()))
        self.known = {pair: each for pair, each in self.known.items() if pair not in gone} | found

    def report(self):
        row, pair = self.some_row()
        record = self.draw_record(pair)
        record = replace(record, uuid=record.uuid or self.known[pair].uuid)
        self.known[pair] = record
        self.table.update(row, record)

    def use(self):
        row, pair = self.some_row()
        now = with_usage(self.known[pair], self.draw_record(pair))
        gone = set(self.table.instances.get(row, ())) - {each.uuid for each in now.instances}
        self.known[pair] = now
        set_usage(self.table, row, usage_of(now, gone))

    def serve(self):
        row, pair = self.some_row()
        self.known[pair] = replace(self.known[pair], service=self.data.draw(SERVICES))
        set_service(self.table, row, self.known[pair].service)

    def gather(self):
        row, pair = self.some_row()
        self.known[pair] = replace(self.known[pair], aggregates=self.data.draw(IN_SOME))
        set_aggregates(self.table, row, self.known[pair].aggregates)

    def fresh(self):
        table = HostTable.of(self.known.values())
        table.known_aggregates = self.table.known_aggregates
        return table


def ask(pipeline, table, spec):
    """Where an instance would go; nothing stays taken."""
    try:
        chosen = pipeline.place(table, spec, ["asked"], randomness=random.Random(1), clock=time.perf_counter_ns)
    except NoValidHost:
        return None
    (selection,) = chosen.selections
    table.release(selection.row, selection.placed)
    return selection.host, selection.node, chosen.scores


PIPELINE = build_pipeline(read_options())
SPECS = [make_spec(vcpus=1, memory_mb=512), make_spec(vcpus=4, memory_mb=1024, availability_zone="az1")]


@settings(max_examples=60)
@given(st.data())
def test_a_table_that_learned_bit_by_bit_is_the_one_made_from_scratch_and_answers_as_it(data):
    learner, pipeline = Learner(data), PIPELINE.fresh()
    for _ in range(data.draw(st.integers(1, 8))):
        learner.step()
        assert_same_table(learner.table, learner.fresh())
        for spec in SPECS:
            assert ask(pipeline, learner.table, spec) == ask(PIPELINE.fresh(), learner.fresh(), spec)


# --- one by one --------------------------------------------------------------------------------------


def test_the_old_table_stays_as_it_is():
    table = make_hosts(3, free_ram_mb=[1, 2, 3], instances=[["i1"], [], ["i3"]])
    (new,) = make_records(1, host="between", free_ram_mb=9)
    other = rebuild_table(table, [0], [new])
    other.numbers["free_ram_mb"][:] = 0
    assert table.free_ram_mb.tolist() == [1, 2, 3]
    assert len(table) == 3
    assert table.rows_of_instance("i3") == (2,)


def test_rows_are_in_order_whoever_came():
    table = make_hosts(2, free_ram_mb=[1, 2])
    first, last = make_records(2, host=["aaa", "zzz"], free_ram_mb=[7, 8])
    other = rebuild_table(table, [], [last, first])
    assert [host for host, _ in other.names] == ["aaa", "host1", "host2", "zzz"]
    assert other.free_ram_mb.tolist() == [7, 1, 2, 8]


def test_what_was_consumed_of_hosts_that_stay_remains_taken():
    table = make_hosts(3, hypervisor_type=["QEMU", "QEMU", "ironic"], total_usable_ram_mb=2048, free_ram_mb=2048)
    spec = make_spec(memory_mb=512, instance_uuid="i1")
    placed = table.consume(1, spec)
    table.consume(1, spec)
    taken = table.consume(2, spec)
    other = rebuild_table(table, [0], [])
    assert other.free_ram_mb.tolist() == [1024, 0]
    other.release(0, placed)
    assert other.rows_of_instance("i1") == (0,), "it was held twice"
    other.release(0, placed)
    assert other.rows_of_instance("i1") == ()
    other.release(1, taken)
    assert other.free_ram_mb.tolist() == [2048, 2048]


def test_a_number_that_all_share_still_takes_no_memory():
    table = make_hosts(3, vcpus_total=8)
    same, another = make_records(2, host=["a", "b"], vcpus_total=[8, 16])
    assert rebuild_table(table, [0], [same]).vcpus_total.strides == (0,)
    assert rebuild_table(table, [0], []).vcpus_total.strides == (0,)
    assert rebuild_table(table, [], [another]).vcpus_total.tolist() == [16, 8, 8, 8]


def test_a_resource_class_that_only_one_side_has():
    table = make_hosts(1, resources=[{"VGPU": Inventory(2, min_unit=2)}])
    (new,) = make_records(1, host="zzz", resources={"CUSTOM_FPGA": Inventory(3)})
    other = rebuild_table(table, [], [new])
    assert other.numbers["limit:VGPU"].tolist() == [2, 0]
    assert other.numbers["limit:CUSTOM_FPGA"].tolist() == [0, 3]
    assert other.numbers["min_unit:VGPU"].tolist() == [2, 1]
    assert other.granular_classes == {"VGPU"}


def test_a_host_that_is_there_cannot_come_again():
    with pytest.raises(BadInput, match="host1, node host1 is there twice"):
        rebuild_table(make_hosts(2), [], make_records(1, host="host1"))


def test_all_may_go():
    other = rebuild_table(make_hosts(2, instances=[["i1"], []]), [0, 1], [])
    assert len(other) == 0
    assert other.rows_of_instance("i1") == ()
    assert len(rebuild_table(other, [], make_records(2))) == 2


def test_aggregates_that_are_known_stay_the_same_object():
    table = make_hosts(2)
    table.known_aggregates = tuple(AGGREGATES)
    assert rebuild_table(table, [1], []).known_aggregates is table.known_aggregates


def test_instances_that_nobody_has_any_more_are_not_carried_along():
    table = make_hosts(2, instances=[["i1"], ["i2"]])
    table.instance_index.replace(0, [], ["i1"])
    other = rebuild_table(table, [], [])
    assert set(other.instances) == {1}
    assert isinstance(other.instances[1]["i2"], Instance)
    assert other.numbers["is_up"].dtype == np.bool_
