# SPDX-License-Identifier: Apache-2.0
"""The weighers for those who pack are off until somebody asks for them."""

import dataclasses
import random

import pytest
from hypothesis import given

from roost.hosts.record import Inventory
from roost.model.decision import Scores
from roost.options.declare import declared
from roost.scheduler.full_scan import weigh
from roost.scheduler.pipeline import Pipeline
from roost.testing import make_hosts, make_spec
from roost.testing.strategies.hosts import host_tables
from roost.testing.strategies.requests import specs
from roost.weighers.cpu import CPUWeigher
from roost.weighers.packing import BalanceWeigher, BestFitWeigher, StackWeigher
from roost.weighers.ram import RAMWeigher

ALL_THREE = [BestFitWeigher, BalanceWeigher, StackWeigher]
ONE_IN_USE = {
    "vcpus_total": 8,
    "vcpus_used": [0, 4],
    "cpu_allocation_ratio": 1.0,
    "total_usable_ram_mb": 8192,
    "free_ram_mb": [8192, 512],
}


@pytest.mark.parametrize("plugin", ALL_THREE)
def test_it_has_one_option_named_for_it_that_is_0(plugin):
    [option] = declared(plugin.Options)
    assert option.name == plugin.multiplier_option == plugin.aggregate_key
    assert option.name.endswith("_weight_multiplier")
    assert (option.group, option.default) == ("filter_scheduler", 0.0)


@given(host_tables(min_size=2), specs())
def test_while_they_are_off_all_weights_stay_as_they_are(table, spec):
    others = [RAMWeigher(), CPUWeigher()]
    expected = weigh(table.in_the_running(), others, spec).weights
    off = [each() for each in ALL_THREE]
    assert weigh(table.in_the_running(), [off[0], *others, *off[1:]], spec).weights.tolist() == expected.tolist()


@pytest.mark.parametrize("plugin", ALL_THREE)
def test_while_it_is_off_nothing_is_worked_out(plugin, monkeypatch):
    monkeypatch.setattr(plugin, "weigh", lambda *_: pytest.fail("worked out for nothing"))
    weighed = weigh(make_hosts(2, **ONE_IN_USE), [plugin()], make_spec())
    assert (weighed.weights.tolist(), dict(Scores(*weighed.noted([0])[0][2]))) == ([0.0, 0.0], {})


@pytest.mark.parametrize("plugin", ALL_THREE)
def test_an_aggregate_turns_it_on_for_its_hosts(plugin):
    hosts = make_hosts(aggregates=[[], [{plugin.aggregate_key: "2"}]], **ONE_IN_USE)
    weighed = weigh(hosts, [plugin()], make_spec(vcpus=1, memory_mb=512))
    assert weighed.weights.tolist() == [0.0, 2.0]


@pytest.mark.parametrize("plugin", ALL_THREE)
def test_it_answers_the_same_for_a_host_whoever_else_is_turned_on(plugin):
    hosts = make_hosts(aggregates=[[{plugin.aggregate_key: "2"}], []], **ONE_IN_USE)
    spec = make_spec(vcpus=1, memory_mb=512)
    together = plugin().clamped(hosts.in_the_running(), spec)
    alone = [plugin().clamped(hosts.in_the_running().take([row]), spec)[0] for row in (0, 1)]
    assert together.tolist() == alone


@pytest.mark.parametrize("plugin", ALL_THREE)
def test_a_negative_multiplier_turns_it_round(plugin):
    hosts, spec = make_hosts(**ONE_IN_USE), make_spec(vcpus=1, memory_mb=512)
    options = plugin.Options()
    positive, negative = (
        weigh(hosts, [plugin(dataclasses.replace(options, **{plugin.multiplier_option: sign}))], spec).weights
        for sign in (1.0, -1.0)
    )
    assert positive.tolist() == (-negative).tolist()
    assert positive.argmax() == 1


def place_five(plugin, spec):
    hosts = make_hosts(
        vcpus_total=8,
        vcpus_used=[0, 5, 6],
        cpu_allocation_ratio=1.0,
        total_usable_ram_mb=8192,
        free_ram_mb=[8192, 2048, 4096],
        resources={"CUSTOM_GPU": Inventory(4)},
    )
    pipeline = Pipeline([], [plugin(plugin.Options(1.0))])
    uuids = [f"vm{number}" for number in range(5)]
    decision = pipeline.place(hosts, spec, uuids, randomness=random.Random(0), clock=lambda: 0)
    return [each.ranked for each in decision.selections]


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(make_spec(vcpus=1, memory_mb=512), id="usual"),
        pytest.param(make_spec(vcpus=0, memory_mb=0, extra_specs={"resources:CUSTOM_GPU": "1"}), id="custom"),
    ],
)
@pytest.mark.parametrize("plugin", ALL_THREE)
def test_what_it_says_it_reads_is_enough_to_follow_what_further_instances_change(plugin, spec):
    asked_anew = type(plugin.__name__, (plugin,), {"reads": frozenset()})
    assert place_five(plugin, spec) == place_five(asked_anew, spec)
