# SPDX-License-Identifier: Apache-2.0
"""Counting by division against placing one instance after the other: all that is said of the headroom is equal."""

import random
from collections import Counter

import numpy as np
import pytest
from tests.unit.questions.random_headroom import random_document, random_request

from roost import Fleet, RequestSpec, Scheduler
from roost.model import Flavor
from roost.questions import counting
from roost.questions.counting import fill_by_division
from roost.questions.headroom import Trial

SEEDS = 40
RULES_ABOUT_USE = ("TypeAffinityFilter", "RamFilter", "CoreFilter")
MANY = 400


@pytest.fixture
def ways(monkeypatch):
    """How often hosts were filled in one step, and how often one instance after the other."""
    found = Counter()

    def fill(*args):
        filled = fill_by_division(*args)
        found["placed" if filled is None else "divided"] += 1
        return filled

    monkeypatch.setattr(counting, "fill_by_division", fill)
    return found


def by_placing(monkeypatch, fleet, spec, **more):
    with monkeypatch.context() as patched:
        patched.setattr(counting, "fill_by_division", lambda *_: None)
        return Scheduler(fleet).headroom(spec, **more)


def roomy(document):
    """The fleet with several times as much room, and mostly without rules about what is in use."""
    options = document["options"]["filter_scheduler"]
    options["enabled_filters"] = [each for each in options["enabled_filters"] if each not in RULES_ABOUT_USE]
    for host in document["hosts"]:
        host |= {name: 5 * host[name] for name in ("vcpus_total", "total_usable_ram_mb", "total_usable_disk_gb")}
    return document


def test_division_says_what_placing_says(ways, monkeypatch):
    for seed in range(SEEDS):
        rng = random.Random(seed)
        fleet = Fleet.load(roomy(random_document(rng)))
        spec = random_request(rng, fleet).changed(instance_group=None)
        how = {"by": "rack", "loses_a_host": rng.random() < 0.3, "most": rng.choice([10, 1_000_000, 1_000_000])}
        assert Scheduler(fleet).headroom(spec, **how) == by_placing(monkeypatch, fleet, spec, **how), f"seed {seed}"
    assert ways["divided"] > SEEDS / 5
    assert ways["placed"] > SEEDS / 5


@pytest.mark.parametrize("ratio", [0.4, 0.7, 1.1, 2.3])
def test_limits_that_are_no_whole_numbers_are_divided_as_they_are_compared(ways, monkeypatch, ratio):
    hosts = [
        {
            "host": f"h{at}",
            "vcpus_total": 7 + at,
            "total_usable_ram_mb": 1000 * at + 1,
            "total_usable_disk_gb": 10_000,
        }
        | {"cpu_allocation_ratio": ratio, "ram_allocation_ratio": ratio}
        for at in range(1, 12)
    ]
    fleet = Fleet.load({"hosts": hosts})
    for vcpus, memory_mb in ((1, 1), (1, 3), (3, 7), (1, 100), (2, 1)):
        spec = RequestSpec(Flavor(vcpus, memory_mb))
        assert Scheduler(fleet).headroom(spec) == by_placing(monkeypatch, fleet, spec)
    assert ways["placed"] == 0


def test_the_table_of_the_scheduler_stays_as_it_was():
    fleet = Fleet.load({"hosts": [{"host": "a", "vcpus_total": 8, "total_usable_ram_mb": 8192}]})
    scheduler = Scheduler(fleet)
    before = {name: column.copy() for name, column in scheduler.table.numbers.items()}
    assert scheduler.headroom(RequestSpec(Flavor(1, 1024))).fits == 8
    assert all(np.array_equal(scheduler.table.numbers[name], column) for name, column in before.items())


def test_the_cost_does_not_depend_on_how_many_fit(monkeypatch):
    """D45: 400 flavors on 40 hosts, of which 300,000 instances fit, took 20 s: each instance was placed."""
    monkeypatch.setattr(Trial, "place", None)
    hosts = {"host": "h[1-40]", "vcpus_total": 32, "total_usable_ram_mb": 131_072, "total_usable_disk_gb": 2000}
    scheduler = Scheduler(Fleet.load({"hosts": [hosts]}))
    flavors = [Flavor(1 + at % 16, 512 * (1 + at % 40), root_gb=1 + at % 37) for at in range(MANY)]
    assert sum(scheduler.headroom(RequestSpec(each)).fits for each in flavors) > 200_000
