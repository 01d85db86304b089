# SPDX-License-Identifier: Apache-2.0
"""A short run of the fuzzer, and that the fuzzer would notice. The long run is `make fuzz`."""

import subprocess
import sys
from pathlib import Path

import pytest
from fuzz import run as fuzzer
from fuzz.inputs import MAKERS
from fuzz.targets import TARGETS

SMALL = {"vcpus": 1, "memory_mb": 512}
CROWDED = {"policy": "anti-affinity", "rules": {"max_server_per_host": "9" * 5000}}
DEEP = '{"a": ' * 500 + "1" + "}" * 500
ROOT = Path(__file__).resolve().parents[2]


def test_two_thousand_random_inputs_break_nothing():
    assert fuzzer.run(seed=15, numbers=range(2000)) is None


def test_every_kind_of_input_is_made_and_put_through_something():
    assert set(MAKERS) == set(TARGETS)
    assert {fuzzer.make_input(1, number)[0] for number in range(100)} == set(MAKERS)


FOUND = {
    "PCI requests that are no list": ("request", {"flavor": SMALL, "pci_requests": True}),
    "a NUMA topology that is none": ("request", {"flavor": SMALL, "numa_topology": 5}),
    "a request that says what became of it": ("request", {"flavor": SMALL, "pci_devices": [5]}),
    "a flavor id that is a mapping": ("request", {"flavor": {**SMALL, "id": {"a": []}}}),
    "an amount of thousands of digits": ("extra_specs", {"resources1:PCPU": "9" * 5000}),
    "a group rule of thousands of digits": ("request", {"flavor": SMALL, "instance_group": CROWDED}),
    "a list of CPUs that names them all thousands of times": ("extra_specs", {"hw:numa_cpus.0": "0-65535," * 20_000}),
    "a query that compares what is nested deeply": ("hints", {"query": f'["=", {DEEP}, {DEEP}]'}),
    "a query about an attribute that is called otherwise here": ("hints", {"query": '["and", "$numa_topology"]'}),
    "an extra spec about such an attribute": ("extra_specs", {"pci_stats": "x"}),
}
"""What broke something once."""


@pytest.mark.parametrize("name", FOUND)
def test_what_broke_something_once_does_not_do_it_again(name):
    assert fuzzer.problem_with(*FOUND[name]) == ""


def test_an_input_depends_on_seed_and_number_only():
    again = [fuzzer.make_input(7, number) for number in range(50)]
    assert [repr(fuzzer.make_input(7, number)) for number in range(50)] == [repr(each) for each in again]
    assert [repr(fuzzer.make_input(8, number)) for number in range(50)] != [repr(each) for each in again]


def test_anything_but_our_own_errors_is_a_failure_that_can_be_tried_again(monkeypatch):
    monkeypatch.setattr(fuzzer, "TARGETS", dict.fromkeys(TARGETS, lambda value: {}["gone"]))
    failure = fuzzer.run(seed=3, numbers=range(5, 10))
    assert (failure.seed, failure.number) == (3, 5)
    assert "KeyError: 'gone'" in str(failure)
    assert "SEED=3 ONLY=5" in str(failure)


def test_a_warning_is_a_failure_too(monkeypatch):
    import numpy as np

    monkeypatch.setattr(fuzzer, "TARGETS", dict.fromkeys(TARGETS, lambda value: np.array([0.0]) / 0))
    assert "RuntimeWarning" in fuzzer.run(seed=3, numbers=[0]).problem


def test_an_input_that_takes_too_long_is_stopped_and_reported(monkeypatch):
    def for_ever(value):
        while True:
            pass

    monkeypatch.setattr(fuzzer, "TARGETS", dict.fromkeys(TARGETS, for_ever))
    monkeypatch.setattr(fuzzer, "SECONDS", 0.05)
    assert "TooSlow" in fuzzer.run(seed=3, numbers=[0]).problem


@pytest.mark.parametrize(
    ("settings", "code", "said"), [({"N": "20"}, 0, "seed 4, 20 inputs"), ({"ONLY": "7"}, 0, "1 inputs")]
)
def test_the_command_says_its_seed_and_ends_by_itself(settings, code, said):
    command = [sys.executable, str(ROOT / "fuzz/run.py")]
    done = subprocess.run(command, env={"SEED": "4", **settings}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, "")
    assert said in done.stdout
    assert "nothing found" in done.stdout
