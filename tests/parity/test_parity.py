# SPDX-License-Identifier: Apache-2.0
"""The columns against the plain loops of `plain.py`, on generated tables."""

import random

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from tests.parity import plain

from roost.errors import NoValidHost
from roost.hosts import HostRecord, HostTable
from roost.model import Aggregate, Flavor, RequestSpec, Retry, Service
from roost.plugins.registry import FILTERS, WEIGHERS
from roost.scheduler.full_scan import weigh
from roost.scheduler.pipeline import Pipeline
from roost.scheduler.prefilters import PrefilterOptions
from roost.testing.strategies.hosts import METADATA, host_tables
from roost.testing.strategies.requests import specs

FILTER_NAMES = [
    "AllHostsFilter",
    "AvailabilityZoneFilter",
    "ComputeFilter",
    "CoreFilter",
    "DiskFilter",
    "RamFilter",
    "RetryFilter",
]
WEIGHER_NAMES = ["CPUWeigher", "DiskWeigher", "RAMWeigher"]
BY_NAME = {each.__name__: each for each in (*FILTERS, *WEIGHERS)}

MANY = settings(max_examples=200, deadline=None)


def some_of(names):
    return st.lists(st.sampled_from(names), unique=True)


@st.composite
def roomy_tables(draw):
    """Hosts that mostly have room and are mostly in service, of few distinct sizes: there are ties."""
    pool = [Aggregate(f"agg{number}", draw(METADATA), id=number) for number in range(1, 4)]
    few = st.sampled_from
    return HostTable.of(
        HostRecord(
            host=f"host{number}",
            node=draw(few(["", "n1"])),
            total_usable_ram_mb=draw(few([1024, 2048, 4096])),
            free_ram_mb=draw(few([None, 1024, 1500, 2048])),
            total_usable_disk_gb=draw(few([20, 40])),
            free_disk_mb=draw(few([None, 20480, 30000])),
            vcpus_total=draw(few([4, 8])),
            vcpus_used=draw(few([None, 2, 5])),
            cpu_allocation_ratio=draw(few([1.0, 1.5, 4.0])),
            ram_allocation_ratio=draw(few([1.0, 1.5])),
            disk_allocation_ratio=draw(few([1.0, 1.1])),
            service=draw(few([Service()] * 8 + [Service(disabled=True), Service(up=False)])),
            aggregates=tuple(draw(st.lists(few(pool), unique_by=lambda each: each.id, max_size=2))),
        )
        for number in range(draw(st.integers(1, 6)))
    )


@st.composite
def small_specs(draw):
    """Requests of which such hosts take several."""
    return RequestSpec(
        flavor=Flavor(
            vcpus=draw(st.integers(1, 3)),
            memory_mb=draw(st.sampled_from([0, 256, 500])),
            root_gb=draw(st.sampled_from([0, 1, 5])),
            swap=draw(st.sampled_from([0, 1, 1024])),
        ),
        num_instances=draw(st.integers(1, 6)),
        availability_zone=draw(st.sampled_from([None, None, None, "nova", "az1"])),
        retry=draw(st.sampled_from([None, None, Retry(hosts=[("host0", "n1"), ("host1", "host1")])])),
    )


@MANY
@given(table=host_tables(), spec=specs(), data=st.data())
def test_every_filter_says_of_every_host_what_the_plain_loop_says(table, spec, data):
    rows = data.draw(st.permutations(range(len(table))))
    hosts, objects = table.in_the_running().take(rows), plain.plain_hosts(table)
    for name in FILTER_NAMES:
        rule = BY_NAME[name]()
        expected = [bool(plain.FILTERS[name](objects[row], spec)) for row in rows]
        assert (name, rule.mask(hosts, spec).tolist()) == (name, expected)
        assert rule.applies_to(spec) or all(expected), f"{name} says it has nothing to do"


@MANY
@given(table=host_tables(), spec=specs())
def test_capacity_says_of_every_host_what_the_plain_loop_says(table, spec):
    expected = [(host.host, host.node) for host in plain.plain_hosts(table) if plain.capacity(host, spec)]
    hosts = table.in_the_running()
    pipeline = Pipeline([], [], prefilters=PrefilterOptions(query_placement_for_availability_zone=False))
    for check in pipeline.rules.checks(table, spec, index=0):
        hosts = check.survivors(hosts)
    assert [(host.host, host.nodename) for host in hosts] == expected


@MANY
@given(table=host_tables(min_size=2), names=some_of(WEIGHER_NAMES), spec=specs())
def test_weights_are_those_of_the_plain_formula_to_the_last_bit(table, names, spec):
    weighed = weigh(table.in_the_running(), [BY_NAME[name]() for name in names], spec)
    assert weighed.weights.tolist() == plain.weights(plain.plain_hosts(table), names)


@settings(max_examples=400, deadline=None)
@given(
    asked=st.tuples(roomy_tables(), small_specs()) | st.tuples(host_tables(), specs(max_instances=4)),
    filters=some_of(FILTER_NAMES),
    weighers=some_of(WEIGHER_NAMES),
    alternates=st.integers(0, 2),
)
def test_whole_placements_are_those_of_the_plain_loops(asked, filters, weighers, alternates):
    table, spec = asked
    objects = plain.plain_hosts(table)
    expected = plain.place(list(objects), spec, filters, weighers)
    pipeline = Pipeline(
        [BY_NAME[name]() for name in filters],
        [BY_NAME[name]() for name in weighers],
        prefilters=PrefilterOptions(query_placement_for_availability_zone=False),
    )
    uuids = [f"i{number}" for number in range(spec.num_instances)]
    try:
        decision = pipeline.place(
            table, spec, uuids, randomness=random.Random(0), clock=lambda: 0, alternates=alternates
        )
        lost, chosen = 0, [(each.host, each.node) for each in decision.selections]
    except NoValidHost as error:
        lost, chosen = sum(error.decision.rejected.values()), None
    event(f"{len(set(chosen))} hosts for {len(chosen)} instances" if chosen else "not placed")
    assert lost == (0 if chosen else len(table))
    assert chosen == (None if expected is None else [(host.host, host.node) for host in expected])
    assert plain.plain_hosts(table) == objects


@MANY
@given(table=host_tables(), placings=st.lists(st.tuples(specs(), st.integers(0, 7)), max_size=6), data=st.data())
def test_consuming_and_releasing_in_any_order_leaves_no_trace(table, placings, data):
    before = contents(table)
    held = []
    for number, (spec, at) in enumerate(placings):
        row = at % len(table)
        held.append((row, table.consume(row, spec.for_instance(f"i{number}"))))
    for row, spec in data.draw(st.permutations(held)):
        table.release(row, spec)
    assert contents(table) == before


def contents(table):
    numbers = {name: column.tolist() for name, column in table.numbers.items()}
    values = {name: [column.at(row) for row in range(len(table))] for name, column in table.encoded.items()}
    instances = {row: dict(held) for row, held in table.instances.items() if held}
    return numbers | values | {"instances": instances}


@pytest.mark.parametrize("name", [*FILTER_NAMES, *WEIGHER_NAMES])
def test_every_plain_rule_is_compared_with_a_plugin(name):
    assert name in BY_NAME
    assert name in (plain.FILTERS | plain.WEIGHERS)
