# SPDX-License-Identifier: Apache-2.0
"""The sample hosts and requests are rich enough to try every built-in weigher."""

import pytest

from roost.plugins.registry import WEIGHERS
from roost.testing import check_weigher
from roost.testing.contract import sample_hosts, sample_specs
from roost.weighers.image_properties import ImagePropertiesWeigher
from roost.weighers.metrics import MetricsWeigher

OPTIONS = {
    ImagePropertiesWeigher: {"image_props_weight_multiplier": 1.0},
    MetricsWeigher: {"weight_setting": ("cpu.frequency=1.0", "cpu.user.time=-1"), "required": False},
}
"""Of the weighers that say nothing until they are told what."""


def rule_of(plugin):
    return plugin(plugin.Options(**OPTIONS[plugin])) if plugin in OPTIONS else plugin()


@pytest.mark.parametrize("plugin", WEIGHERS, ids=lambda plugin: plugin.__name__)
def test_each_weigher_tells_some_sample_hosts_apart(plugin):
    table, rule = sample_hosts(), rule_of(plugin)
    assert any(len(set(rule.clamped(table.in_the_running(), spec).tolist())) > 1 for spec in sample_specs())


@pytest.mark.parametrize("plugin", OPTIONS, ids=lambda plugin: plugin.__name__)
def test_a_weigher_that_was_told_what_to_look_at_keeps_the_contract_too(plugin):
    check_weigher(rule_of(plugin))
