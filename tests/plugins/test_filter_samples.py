# SPDX-License-Identifier: Apache-2.0
"""The sample hosts and requests are rich enough to try every built-in filter."""

import numpy as np
import pytest

from roost.filters.base import Filter
from roost.filters.isolated_hosts import IsolatedHostsFilter
from roost.filters.metrics import MetricsFilter
from roost.plugins.registry import FILTERS
from roost.testing import check_filter
from roost.testing.contract import sample_hosts, sample_specs

OPTIONS = {
    IsolatedHostsFilter: {"isolated_hosts": ("a",), "isolated_images": ("image1",)},
    MetricsFilter: {"weight_setting": ("cpu.frequency=1.0", "cpu.user.time=-1")},
}
"""Of the filters that reject nothing until they are told what."""


def rule_of(plugin):
    return plugin(plugin.Options(**OPTIONS[plugin])) if plugin in OPTIONS else plugin()


def named(plugin):
    return plugin.__name__


@pytest.mark.parametrize("plugin", FILTERS, ids=named)
def test_each_filter_rejects_some_sample_host_and_keeps_some_but_for_the_one_that_keeps_all(plugin):
    table = sample_hosts()
    answers = [rule_of(plugin).mask(table.in_the_running(), spec).tolist() for spec in sample_specs()]
    assert any(not each for mask in answers for each in mask) is (named(plugin) != "AllHostsFilter")
    assert any(each for mask in answers for each in mask)


@pytest.mark.parametrize("plugin", OPTIONS, ids=named)
def test_a_filter_that_was_told_what_to_reject_keeps_the_contract_too(plugin):
    check_filter(rule_of(plugin))


class Forgetful(Filter):
    """Keeps hosts with free memory in service, and says that it looks at the memory only."""

    reads = frozenset({"free_ram_mb"})

    def mask(self, hosts, spec):
        return (hosts.free_ram_mb > 0) & hosts.is_up

    def reason(self, host, spec):
        return "no"


class ForgetfulOfAView(Forgetful):
    """The same by asking each host."""

    def mask(self, hosts, spec):
        return np.array([host.free_ram_mb > 0 and "gpu" in host.stats for host in hosts])


@pytest.mark.parametrize(("plugin", "column"), [(Forgetful, "is_up"), (ForgetfulOfAView, "stats")])
def test_a_filter_that_looks_at_more_than_it_says_is_caught(plugin, column):
    with pytest.raises(AssertionError, match=f"looks at {column}, which its `reads` does not name"):
        check_filter(plugin())


def test_no_sample_request_is_refused_by_a_filter():
    table = sample_hosts()
    for spec in sample_specs():
        for plugin in FILTERS:
            assert len(rule_of(plugin).mask(table.in_the_running(), spec)) == len(table)
