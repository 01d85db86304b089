# SPDX-License-Identifier: Apache-2.0
"""Every example of docs/filters.yaml is what the filter really says, and every filter has one."""

import dataclasses

import pytest

from docs import _generate
from roost.model.numa import derive_topology
from roost.plugins.registry import FILTERS
from roost.scheduler.all_options import read_options
from roost.scheduler.build import make_plugins
from roost.testing import make_hosts, make_spec

EXAMPLES = _generate.filter_examples()
BY_NAME = {each.__name__: each for each in FILTERS}
KEYS = {"hosts", "request", "options", "passes", "fails", "remedies"}


def rule_of(name, options):
    """The filter with its options, read as from a file: values and names are checked."""
    plugin = BY_NAME[name]
    groups = {each.name: each.group for each in _generate.declared(plugin.Options)} if plugin.Options else {}
    sections = {}
    for option, value in options.items():
        sections.setdefault(groups[option], {})[option] = value
    return make_plugins([plugin], read_options(explicit=sections))[0]


def spec_of(request):
    """The request, with the NUMA topology that its flavor asks for, as the scheduler would have it."""
    spec = make_spec(**request)
    return dataclasses.replace(spec, numa_topology=derive_topology(spec.flavor, spec.image))


def verdicts(name, example):
    """Who passes, and why the others fail."""
    rule, spec = rule_of(name, example.get("options", {})), spec_of(example["request"])
    hosts = make_hosts(**example["hosts"]).in_the_running()
    mask = rule.mask(hosts, spec).tolist()
    named = list(zip(hosts, mask, strict=True))
    return (
        {host.host for host, passes in named if passes},
        {host.host: rule.reason(host, spec) for host, passes in named if not passes},
    )


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_what_the_filter_says(name):
    example = EXAMPLES[name]
    assert set(example) <= KEYS
    assert verdicts(name, example) == (set(example["passes"]), example["fails"])


@pytest.mark.parametrize("name", BY_NAME)
def test_every_filter_has_an_example_in_which_hosts_pass_and_fail(name):
    assert name in EXAMPLES, f"add {name} to docs/filters.yaml: who passes, who fails and why"
    assert EXAMPLES[name]["passes"]
    assert EXAMPLES[name]["fails"] or name == "AllHostsFilter"


def test_every_example_is_of_a_filter_and_in_their_order():
    assert list(EXAMPLES) == list(BY_NAME)


@pytest.fixture(scope="module")
def page():
    return _generate.filters_page()


@pytest.mark.parametrize("name", BY_NAME)
def test_the_reference_shows_the_example_with_every_host_reason_and_remedy(page, name):
    section = page.partition(f"## {name}\n")[2].partition("\n## ")[0]
    example = EXAMPLES[name]
    for host in (*example["passes"], *example["fails"]):
        assert f"| `{host}` |" in section
    for reason in (*example["fails"].values(), *example.get("remedies", {}).values()):
        assert reason in section
