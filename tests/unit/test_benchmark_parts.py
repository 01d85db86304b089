# SPDX-License-Identifier: Apache-2.0
"""Parts of the harness by themselves: the fleet, one run of a trace, growth, memory."""

import itertools
import time
from pathlib import Path

import numpy as np
import pytest
from benchmarks import fleets, resident
from benchmarks.fleets import make_fleet, share_evenly, split
from benchmarks.growth import exponent, growth
from benchmarks.messages_bench import figures
from benchmarks.suite import WORKLOADS
from benchmarks.trace_bench import Run, follow
from benchmarks.workload import FleetShape, HostGroup, Requests, Workload, read_workload

from roost import Flavor, RequestSpec, Scheduler
from roost.hosts import HostRecord, HostTable

SIZE = {
    "vcpus_total": 32,
    "total_usable_ram_mb": 65536,
    "total_usable_disk_gb": 500,
    "ram_allocation_ratio": 1.5,
    "cpu_allocation_ratio": 4.0,
}


def workload(kind="cold", count=30, name="tiny", used=(0.1, 0.9), grows=False, **like):
    groups = [{"share": 1, "like": SIZE | like, "used": used}, {"share": 1, "like": SIZE}]
    requests = Requests(3, "azure_v1_sizes.csv") if kind != "memory" else None
    return Workload(
        Path(f"{name}.yaml"), kind, "for tests", FleetShape(count, groups), requests=requests, grows=grows
    )


def request(vcpus=1, memory_mb=1024):
    return RequestSpec(flavor=Flavor(vcpus, memory_mb))


@pytest.mark.parametrize("used", [0.0, 0.5, 1.0, (0.1, 0.9)])
@pytest.mark.parametrize("like", [{}, {"reserved_ram_mb": 4096, "reserved_disk_gb": 10}])
def test_usage_in_the_columns_is_that_of_hosts_which_report_it(used, like):
    table = make_fleet(workload(used=used, **like)).table
    reported = HostTable.of(
        HostRecord(
            host,
            vcpus_used=int(table.vcpus_used[row]),
            free_ram_mb=int(table.free_ram_mb[row]),
            free_disk_mb=int(table.free_disk_mb[row]),
            **SIZE | (like if host.endswith("-0") else {}),
        )
        for row, (host, _) in enumerate(table.names)
    )
    assert table.numbers.keys() == reported.numbers.keys()
    for name, column in table.numbers.items():
        assert column.tolist() == reported.numbers[name].tolist(), name


@pytest.mark.parametrize("at_a_time", [7, 4096])
def test_usage_is_drawn_for_each_host_within_its_range(at_a_time, monkeypatch):
    monkeypatch.setattr(fleets, "_BATCH", at_a_time)
    table = make_fleet(workload(used=(0.2, 0.4))).table
    parts = table.vcpus_used[::2] / 128
    assert len(set(parts)) > 5
    assert parts.min() >= 0.19
    assert parts.max() <= 0.41
    assert table.vcpus_used[1::2].tolist() == [0] * 15


@pytest.mark.parametrize("shares", [[1], [50, 30, 20], [1, 1, 1], [0.001, 99]])
def test_parts_by_share_add_up(shares):
    assert sum(split(1001, [HostGroup(share, {}) for share in shares])) == 1001


def test_zones_share_hosts_evenly():
    assert share_evenly(8, 3) == [3, 3, 2]


def test_machines_that_go_give_back_all_they_took():
    scheduler = Scheduler(make_fleet(workload()), seed=1)
    before = {name: column.copy() for name, column in scheduler.table.numbers.items()}
    run = follow(scheduler, [(1, request(2)), (2, request(4)), (1, None)])
    assert [machine for machine, _, _ in run.placed] == [2]
    follow(scheduler, [(3, request()), (3, None), (9, None)])
    changed = {name for name in before if not np.array_equal(before[name], scheduler.table.numbers[name])}
    assert "vcpus_used" in changed
    assert (scheduler.table.vcpus_used - before["vcpus_used"]).sum() == 4


def test_each_event_has_the_time_since_the_reading_before():
    readings = itertools.accumulate([100, 7, 5, 3, 2])
    scheduler = Scheduler(make_fleet(workload()), seed=1)
    steps = [(1, request()), (2, request(999)), (1, None), (2, None)]
    run = follow(scheduler, steps, clock=lambda: next(readings))
    assert (run.place_ns, run.release_ns, run.refused) == ([7, 5], [3, 2], 1)


def test_a_run_takes_the_cpu_time_from_before_the_first_to_after_the_last_event(monkeypatch):
    monkeypatch.setattr(time, "thread_time_ns", itertools.accumulate([100, 7000]).__next__)
    assert follow(Scheduler(make_fleet(workload()), seed=1), [(1, request()), (1, None)]).cpu_ns == 7000


def test_a_decision_pays_for_the_deletes_too():
    run = Run([1000, 3000], [2000], cpu_ns=6000, elapsed_ns=9000, placed=[], refused=0)
    assert run.us_per_decision == 3.0


@pytest.mark.parametrize(("figures", "expected"), [([5, 50, 500], 1.0), ([7, 7, 7], 0.0), ([1, 100, 10000], 2.0)])
def test_exponent_says_how_a_figure_grows(figures, expected):
    assert exponent([10, 100, 1000], figures) == pytest.approx(expected)


def test_growth_is_by_kind_and_from_the_smallest_fleet_to_the_largest():
    known = [
        workload(name="cold-100", grows=True),
        workload(name="cold-10", grows=True),
        workload(name="cold-else"),
        workload("memory", name="memory-10", grows=True),
        workload("memory", name="memory-100", grows=True),
    ]
    results = {
        "cold-100": {"hosts": 100, "median_us": 20.0},
        "cold-10": {"hosts": 10, "median_us": 2.0},
        "memory-10": {"hosts": 10, "megabytes": 1.0},
    }
    assert growth(known, results) == {"cold": {"hosts": (10, 100), "median_us": (2.0, 20.0), "exponent": 1.0}}


def test_memory_is_read_while_the_scheduler_that_served_is_there():
    served = workload()
    scheduler = resident.serve(make_fleet(served), served, [request(), request()])
    assert scheduler.table.num_instances.sum() == 2
    assert resident.serve(make_fleet(served), served, []) is None


def test_what_a_scheduler_adds_to_a_message_is_bounded_relative_to_the_echo_of_the_same_run():
    messages = read_workload(WORKLOADS / "messages-10k-1.yaml")
    runs = [{"scheduler": [3.5, 3.4], "echo": [2.0, 2.0], "commit": [3.0, 3.0]}] * 5
    found = figures(messages, runs, rates=[100.0])
    assert (found["echo_median_ms"], found["added_median_ms"]) == (2.0, 1.45)
    assert found["added_ratio"] == 0.725
    [expectation] = messages.expectations
    assert str(expectation) == "added_ratio <= 0.9"
    assert expectation.is_met(0.9)
    assert not expectation.is_met(0.901)
