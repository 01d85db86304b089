# SPDX-License-Identifier: Apache-2.0
"""What the inputs are put through: everything that takes values from outside and decides about hosts."""

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
from roost.model.image_properties import parse_properties
from roost.model.json_records import request_from_json
from roost.model.numa import derive_topology
from roost.model.pci import aliases_from_option, requests_from_flavor
from roost.plugins import FILTERS
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
    """As the extra specs of a flavor, in a request of their own."""
    flavor = Flavor(4, 4096, 10, extra_specs=extra_specs, name="m1", id=3)
    ask_everybody(RequestSpec(flavor, numa_topology=_found(derive_topology, flavor, None)))
    ask_everybody(RequestSpec(flavor, pci_requests=_found(requests_from_flavor, flavor, None, ALIASES) or ()))


def try_image_properties(raw: Any) -> None:
    """As the properties of an image, under a flavor that leaves much to the image."""
    taken = parse_properties(raw)
    taken.to_dict()
    image = Image(id="image1", properties=taken, disk_format="qcow2")
    flavor = Flavor(4, 4096, extra_specs={"hw:mem_page_size": "any"})
    topology = _found(derive_topology, flavor, image)
    devices = _found(requests_from_flavor, flavor, image, ALIASES) or ()
    ask_everybody(RequestSpec(flavor, image, numa_topology=topology, pci_requests=devices))


def try_hints(hints: Any) -> None:
    """As the hints of a request."""
    ask_everybody(RequestSpec(Flavor(1, 512), scheduler_hints=hints))


def try_pci_aliases(lines: Any) -> None:
    """As the lines of option [pci] alias, and then by a flavor."""
    aliases = aliases_from_option(lines)
    for name in aliases:
        flavor = Flavor(1, 512, extra_specs={"pci_passthrough:alias": f"{name}:1"})
        ask_everybody(RequestSpec(flavor, pci_requests=requests_from_flavor(flavor, None, aliases)))


def try_request(data: Any) -> None:
    """As a whole request."""
    spec = request_from_json(data)
    hash(spec.flavor)
    ask_everybody(spec)


def _found(call: Callable[..., Any], *arguments: Any) -> Any:
    """What the call gives; None where it refuses, as it may."""
    try:
        return call(*arguments)
    except RoostError:
        return None


def ask_everybody(spec: RequestSpec) -> None:
    """Every question that the pipeline might put to the hosts, and why for each no.

    One that refuses the request does not keep the others from being asked. Not through `Filter.answers`, which
    would hide what a filter raises.
    """
    for rule in RULES:
        if rule.applies_to(spec):
            _found(_ask, rule, spec)
    _found(_ask_checks, spec)


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
"""Kind of input -> what it is put through. Anything but a RoostError is a bug."""
