# SPDX-License-Identifier: Apache-2.0
"""Random sets of filters and weighers with random options, made as often as wanted from the same plan."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from tests.parity import own_plugins, plain_weighers
from tests.parity.focus import Focus

from roost.plugins.registry import FILTERS, WEIGHERS
from roost.scheduler.pipeline import Pipeline
from roost.scheduler.prefilters import PrefilterOptions
from roost.scheduler.search import Choice, Engine, Rules

Dice = random.Random

FILTER_BY_NAME = {each.__name__: each for each in (*FILTERS, *own_plugins.FILTERS)}
WEIGHER_BY_NAME = {each.__name__: each for each in (*WEIGHERS, *own_plugins.WEIGHERS)}

DEFAULTS = (
    "AvailabilityZoneFilter",
    "ComputeFilter",
    "ComputeCapabilitiesFilter",
    "ImagePropertiesFilter",
    "ServerGroupAntiAffinityFilter",
    "ServerGroupAffinityFilter",
)
OFTEN_NO = ("ExactCoreFilter", "ExactDiskFilter", "ExactRamFilter", "TypeAffinityFilter", "MetricsFilter")
"""Leave so few hosts that little would happen, were they in every other set."""

FILTER_OPTIONS: dict[str, dict[str, tuple[Any, ...]]] = {
    "AggregateIoOpsFilter": {"max_io_ops_per_host": (2, 4, 8)},
    "IoOpsFilter": {"max_io_ops_per_host": (2, 4, 8)},
    "AggregateNumInstancesFilter": {"max_instances_per_host": (3, 8, 50)},
    "NumInstancesFilter": {"max_instances_per_host": (3, 8, 50)},
    "ImagePropertiesFilter": {"image_properties_default_architecture": (None, None, "x86_64")},
    "IsolatedHostsFilter": {
        "isolated_images": ((), ("image2",)),
        "isolated_hosts": ((), ("host00", "host07", "Host3"), ("host02",)),
        "restrict_isolated_hosts_to_isolated_images": (True, False),
    },
    "MetricsFilter": {"weight_setting": ((), ("foo=1",), ("foo=1", "bar=-2"))},
}
WEIGHER_OPTIONS: dict[str, dict[str, tuple[Any, ...]]] = {
    "MetricsWeigher": {
        "weight_setting": (
            ("foo=1",),
            ("foo=0.1", "bar=-2"),
            ("bar=1",),
            ("foo=2", "bar=0"),
            ("foo=-2", "foo=1"),
            (),
        ),
        "required": (False,) * 15 + (True,),
        "weight_of_unavailable": (-10000.0, 0.0, 0.1),
    },
    "ImagePropertiesWeigher": {"image_props_weight_setting": ((), ("os_distro=0.1", "hw_disk_bus=-2"))},
}
OFF_BY_DEFAULT = ("BalanceWeigher", "BestFitWeigher", "ImagePropertiesWeigher", "NumInstancesWeigher", "StackWeigher")
NEVER_NEGATIVE = ("PCIWeigher", "ServerGroupSoftAffinityWeigher", "ServerGroupSoftAntiAffinityWeigher")


@dataclass(frozen=True)
class Plan:
    """What a pipeline is made from."""

    filters: tuple[tuple[type, Any], ...]
    """Class and options."""
    weighers: tuple[tuple[type, Any], ...]
    choice: Choice
    checks_capacity: bool
    prefilters: PrefilterOptions

    def build(self, engine: Callable[[Rules, Choice], Engine]) -> Pipeline:
        """A new one with this engine, which shares nothing with those made before."""
        return Pipeline(
            [rule(options) for rule, options in self.filters],
            [weigher(options) for weigher, options in self.weighers],
            self.choice,
            self.checks_capacity,
            self.prefilters,
            engine=engine,
        )


def make_plan(dice: Dice, focus: Focus) -> Plan:
    """With the rule in focus first, so that all hosts come to it, and mostly with little besides."""
    choice = Choice()
    if dice.random() < (0.04 if focus.rule else 0.25):
        choice = Choice(dice.choice([1, 2, 5]), dice.random() < 0.5)
    switches = {each.name: each.name in focus.switches or dice.random() < 0.08 for each in fields(PrefilterOptions)}
    switches["query_placement_for_availability_zone"] = focus.rule == "" or dice.random() < 0.4
    switches["placement_aggregate_required_for_tenants"] = dice.random() < 0.05
    filters, weighers = filter_names(dice, focus), weigher_names(dice, focus)
    return Plan(
        filters=tuple((FILTER_BY_NAME[name], filter_options(dice, name)) for name in filters),
        weighers=tuple((WEIGHER_BY_NAME[name], weigher_options(dice, name, focus)) for name in weighers),
        choice=choice,
        checks_capacity=focus.rule not in FILTER_BY_NAME or dice.random() < 0.3,
        prefilters=PrefilterOptions(**switches),
    )


def filter_names(dice: Dice, focus: Focus) -> list[str]:
    share = dice.choice([0.03, 0.1, 0.5])
    names = list(DEFAULTS) if dice.random() < 0.3 else []
    for each in FILTERS:
        name = each.__name__
        if name not in names and dice.random() < (0.01 if name in OFTEN_NO else share):
            names.append(name)
    names += [each.__name__ for each in own_plugins.FILTERS if dice.random() < (0.005 if focus.rule else 0.08)]
    if dice.random() < 0.5:
        dice.shuffle(names)
    if focus.rule in FILTER_BY_NAME:
        names = [focus.rule, *(name for name in names if name != focus.rule)]
    return names


def weigher_names(dice: Dice, focus: Focus) -> list[str]:
    """All built-in ones, as is the default, or some."""
    names = [each.__name__ for each in WEIGHERS]
    if dice.random() < 0.6:
        names = dice.sample(names, dice.choice([0, 1, 2, 4, 8]))
    if focus.rule in WEIGHER_BY_NAME and focus.rule not in names:
        names.append(focus.rule)
    return names + [each.__name__ for each in own_plugins.WEIGHERS if dice.random() < (0.005 if focus.rule else 0.08)]


def filter_options(dice: Dice, name: str) -> Any:
    return make_options(dice, FILTER_BY_NAME[name], FILTER_OPTIONS.get(name, {}))


def weigher_options(dice: Dice, name: str, focus: Focus) -> Any:
    if name not in plain_weighers.WEIGHERS:
        return None
    values = dict(WEIGHER_OPTIONS.get(name, {}))
    if name == focus.rule or dice.random() < (0.7 if name in OFF_BY_DEFAULT else 0.5):
        multipliers = (1.0, 0.1, 3.0) if name in NEVER_NEGATIVE else (1.0, -1.0, 0.1, -1.5, 3.0, 1e6)
        is_off = name != focus.rule and dice.random() < 0.15
        values[plain_weighers.WEIGHERS[name].option] = (0.0,) if is_off else multipliers
    return make_options(dice, WEIGHER_BY_NAME[name], values)


def make_options(dice: Dice, plugin: Any, values: dict[str, tuple[Any, ...]]) -> Any:
    if plugin.Options is None:
        return None
    return plugin.Options(**{name: dice.choice(found) for name, found in values.items()})
