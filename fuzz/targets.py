# SPDX-License-Identifier: Apache-2.0
"""Targets of the fuzzer: every parser of external values, and the filters and checks that use them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from roost.errors import RoostError
from roost.filters.aggregate_isolation import AggregateImagePropertiesIsolation
from roost.filters.base import Filter
from roost.filters.isolated_hosts import IsolatedHostsFilter
from roost.filters.metrics import MetricsFilter
from roost.model import Flavor, Image, RequestSpec
from roost.model.image import parse_properties
from roost.model.json_records import request_from_json
from roost.model.numa import derive_topology
from roost.model.pci import aliases_from_option, requests_from_flavor
from roost.plugins.registry import FILTERS
from roost.scheduler.checks import capacity_checks
from roost.scheduler.prefilters import PrefilterOptions, named_host_checks, request_filter_checks
from roost.testing.contract import sample_hosts

HOSTS = sample_hosts()
ALIASES = aliases_from_option(
    [
        '{"name": "gpu", "vendor_id": "10de", "product_id": "1eb8"}',
        '{"name": "nic", "vendor_id": "8086", "product_id": "154c", "numa_policy": "required"}',
    ]
)
RULES: list[Filter] = [
    *(plugin() for plugin in FILTERS),
    AggregateImagePropertiesIsolation(AggregateImagePropertiesIsolation.Options("hw", "_")),
    IsolatedHostsFilter(IsolatedHostsFilter.Options(("image1",), ("a",))),
    MetricsFilter(MetricsFilter.Options(("cpu.frequency=1.0",))),
]
EVERYTHING_ON = PrefilterOptions(**{each.name: True for each in dataclasses.fields(PrefilterOptions)})


def try_extra_specs(extra_specs: Any) -> None:
    """Use the input as the extra specs of a flavor: NUMA topology, PCI requests, and all checks."""
    flavor = Flavor(4, 4096, 10, extra_specs=extra_specs, name="m1", id=3)
    run_all_checks(RequestSpec(flavor, numa_topology=_try(derive_topology, flavor, None)))
    run_all_checks(RequestSpec(flavor, pci_requests=_try(requests_from_flavor, flavor, None, ALIASES) or ()))


def try_image_properties(raw: Any) -> None:
    """Use the input as the properties of an image, with a flavor that does not override them."""
    taken = parse_properties(raw)
    taken.to_dict()
    image = Image(id="image1", properties=taken, disk_format="qcow2")
    flavor = Flavor(4, 4096, extra_specs={"hw:mem_page_size": "any"})
    topology = _try(derive_topology, flavor, image)
    devices = _try(requests_from_flavor, flavor, image, ALIASES) or ()
    run_all_checks(RequestSpec(flavor, image, numa_topology=topology, pci_requests=devices))


def try_hints(hints: Any) -> None:
    """Use the input as the scheduler hints of a request."""
    run_all_checks(RequestSpec(Flavor(1, 512), scheduler_hints=hints))


def try_pci_aliases(lines: Any) -> None:
    """Use the input as the lines of the option [pci] alias, and request each alias with a flavor."""
    aliases = aliases_from_option(lines)
    for name in aliases:
        flavor = Flavor(1, 512, extra_specs={"pci_passthrough:alias": f"{name}:1"})
        run_all_checks(RequestSpec(flavor, pci_requests=requests_from_flavor(flavor, None, aliases)))


def try_request(data: Any) -> None:
    """Use the input as a whole request in JSON."""
    spec = request_from_json(data)
    hash(spec.flavor)
    run_all_checks(spec)


def _try(call: Callable[..., Any], *arguments: Any) -> Any:
    """The result of the call; None where it raises RoostError, which is allowed."""
    try:
        return call(*arguments)
    except RoostError:
        return None


def run_all_checks(spec: RequestSpec) -> None:
    """Run every filter and check of the pipeline on the sample hosts, and ask each for a reason of a rejection.

    One that raises RoostError does not prevent the next. `Filter.answers` is not used, as it hides exceptions.
    """
    for rule in RULES:
        if rule.applies_to(spec):
            _try(_ask, rule, spec)
    _try(_ask_checks, spec)


def _ask(rule: Filter, spec: RequestSpec) -> None:
    hosts = HOSTS.in_the_running()
    mask = rule.mask(hosts, spec)
    if not mask.all():
        (rejected, *_) = hosts.keep(~mask)
        rule.reason(rejected, spec)
    rule.ceilings(hosts, spec)


def _ask_checks(spec: RequestSpec) -> None:
    checks = (
        named_host_checks(spec),
        request_filter_checks(spec, HOSTS.known_aggregates, EVERYTHING_ON),
        capacity_checks(spec),
    )
    for each in checks:
        for check in each:
            if check.ask is not None:
                check.ask(HOSTS.in_the_running())


TARGETS: Mapping[str, Callable[[Any], None]] = {
    "extra_specs": try_extra_specs,
    "image_properties": try_image_properties,
    "hints": try_hints,
    "pci_aliases": try_pci_aliases,
    "request": try_request,
}
"""Kind of input -> the function that processes it. Any exception other than RoostError is a bug."""
