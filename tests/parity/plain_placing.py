# SPDX-License-Identifier: Apache-2.0
"""A whole request as plain loops over plain objects: prefilter, capacity, filter, weigh, choose, consume.

Works everything out anew for each instance and keeps nothing. The rules are those of `plain.py`, `plain_filters.py`
and `plain_weighers.py`; of `roost.scheduler` nothing is used.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple

from tests.parity import plain, plain_filters, plain_weighers
from tests.parity.own_plugins import FILTER_LOOPS, WEIGHER_LOOPS
from tests.parity.plain_filters import Chance, Raises

from roost.hosts import HostTable
from roost.model import RequestSpec

KEPT_BEST = 5
USED = ("free_ram_mb", "free_disk_mb", "vcpus_used", "num_instances", "num_io_ops")
WORDS = {"VCPU": "vcpu", "MEMORY_MB": "ram", "DISK_GB": "disk"}


class CannotSay(Exception):
    """The plain loops have no answer: several instances with NUMA cells or devices, or nova leaves it to chance."""


class Fails(Exception):
    """The request fails with an error of one of these classes of nova's; which one depends on the order of hosts."""

    def __init__(self, errors: set[str]) -> None:
        super().__init__(errors)
        self.errors = errors


# --- hosts ---------------------------------------------------------------------------------------------


class Seen:
    """A host as the filters read it: what the table said before the request, less what the request has taken."""

    def __init__(self, view: Any) -> None:
        self._view = view
        self.instances = dict(view.instances)

    def __getattr__(self, name: str) -> Any:
        value = self.__dict__[name] = getattr(self._view, name)
        return value


class Host(NamedTuple):
    """One host, as the weighers and as the filters read it."""

    plain: plain_weighers.PlainHost
    seen: Seen

    @property
    def name(self) -> tuple[str, str]:
        return self.plain.host, self.plain.node

    def consume(self, spec: RequestSpec) -> None:
        if self.seen.is_bare_metal:
            self._take_whole()
        else:
            self._take_in(spec)
        for name in USED:
            setattr(self.seen, name, getattr(self.plain, name))

    def _take_whole(self) -> None:
        self.plain.free_ram_mb = self.plain.free_disk_mb = 0
        self.plain.vcpus_used = self.plain.vcpus_total
        for name, limit in self.plain.limit.items():
            self.plain.allocated[name] = int(limit)

    def _take_in(self, spec: RequestSpec) -> None:
        flavor, host = spec.flavor, self.plain
        host.free_ram_mb -= flavor.memory_mb
        host.free_disk_mb -= 1024 * (flavor.root_gb + flavor.ephemeral_gb)
        host.vcpus_used += flavor.vcpus
        host.num_instances += 1
        host.num_io_ops += 1
        for name, amount in asked_amounts(spec).items():
            if name in host.allocated:
                host.allocated[name] += amount
        if spec.instance_uuid and spec.instance_uuid not in host.instances:
            host.instances[spec.instance_uuid] = {}
            self.seen.instances[spec.instance_uuid] = SimpleNamespace(flavor_id=flavor.id)


def hosts_of(table: HostTable) -> list[Host]:
    """The table as plain objects: what `plain_weighers.plain_hosts` gives, by columns, which is faster."""
    numbers = {name: column.tolist() for name, column in table.numbers.items()}
    return [Host(_plain_host(view, numbers, row), Seen(view)) for row, view in enumerate(table.in_the_running())]


def _plain_host(view: Any, numbers: dict[str, list[Any]], row: int) -> plain_weighers.PlainHost:
    fields = plain_weighers.PlainHost.__dataclass_fields__
    classes = [name.removeprefix("limit:") for name in numbers if name.startswith("limit:")]
    return plain_weighers.PlainHost(
        host=view.host,
        node=view.nodename,
        disabled=numbers["is_disabled"][row],
        up=numbers["is_up"][row],
        cell=view.cell,
        metadata=[dict(aggregate.metadata) for aggregate in view.aggregates],
        limit={name: numbers[f"limit:{name}"][row] for name in classes},
        allocated={name: numbers[f"allocated:{name}"][row] for name in classes},
        max_unit={name: numbers[f"max_unit:{name}"][row] for name in classes},
        free_devices=[pool.count for pool in view.pci_stats],
        metrics=None if view.metrics is None else [(metric["name"], metric["value"]) for metric in view.metrics],
        instances={uuid: dict(instance.image_props) for uuid, instance in view.instances.items()},
        **{name: column[row] for name, column in numbers.items() if name in fields},
    )


# --- who may take it -----------------------------------------------------------------------------------


class Rule(NamedTuple):
    """One question to all hosts that are left."""

    stage: str
    name: str
    ask: Callable[[list[Host]], list[bool]]


def each(passes: Callable[[Host], Any]) -> Callable[[list[Host]], list[bool]]:
    return lambda hosts: [bool(passes(host)) for host in hosts]


def rules_of(pipeline: Any, spec: RequestSpec, index: int, known: Sequence[Any]) -> Iterator[Rule]:
    if index == 0:
        yield from name_rules(spec)
        if not spec.is_rebuild:
            yield from aggregate_rules(spec, known, pipeline.rules.prefilters)
            yield from trait_rules(spec, pipeline.rules.prefilters)
    if pipeline.rules.checks_capacity and not spec.is_rebuild:
        yield from capacity_rules(spec)
    is_checked = "_nova_check_type" in spec.scheduler_hints
    if is_checked or not (spec.force_hosts or spec.force_nodes):
        yield from filter_rules(pipeline.rules.filters, spec, index)


def name_rules(spec: RequestSpec) -> Iterator[Rule]:
    wanted = spec.requested_destination
    if wanted and wanted.host:
        node = wanted.node
        is_there = each(lambda host: host.plain.host == wanted.host and (not node or host.plain.node == node))
        yield Rule("prefilter", "requested_destination", is_there)
    if spec.ignore_hosts:
        ignored = [name.lower() for name in spec.ignore_hosts]
        yield Rule("prefilter", "ignore_hosts", each(lambda host: host.plain.host.lower() not in ignored))
    if spec.force_hosts:
        forced = [name.lower() for name in spec.force_hosts]
        yield Rule("prefilter", "force_hosts", each(lambda host: host.plain.host.lower() in forced))
    if spec.force_nodes:
        nodes = list(spec.force_nodes)
        yield Rule("prefilter", "force_nodes", each(lambda host: host.plain.node in nodes))


def uuid_rules(spec: RequestSpec) -> Iterator[Rule]:
    """The aggregates that the request names: in one of each entry, and in no forbidden one."""
    wanted, groups = spec.requested_destination, spec.requested_resources
    entries = [entry.split(",") for entry in wanted.aggregates] if wanted else []
    forbidden = list(wanted.forbidden_aggregates) if wanted else []
    for group in groups:
        entries += [list(entry) for entry in group.aggregates]
        forbidden += list(group.forbidden_aggregates)
    if entries:
        yield Rule("prefilter", "requested_aggregates", each(lambda host: all(is_in_any(host, e) for e in entries)))
    if forbidden:
        yield Rule("prefilter", "forbidden_aggregates", each(lambda host: not is_in_any(host, forbidden)))


def is_in_any(host: Host, uuids: Sequence[str]) -> bool:
    return any(aggregate.uuid in uuids for aggregate in host.seen.aggregates)


def aggregate_rules(spec: RequestSpec, known: Sequence[Any], options: Any) -> Iterator[Rule]:
    yield from uuid_rules(spec)
    if options.limit_tenants_to_placement_aggregate:
        wanted = [each for each in known if names_project(each, spec.project_id)]
        if wanted or options.placement_aggregate_required_for_tenants:
            yield Rule("prefilter", "tenant_aggregate", inside(wanted))
    zone = spec.availability_zone
    if options.query_placement_for_availability_zone and zone:
        wanted = [each for each in known if each.metadata.get("availability_zone") == zone]
        if wanted:
            yield Rule("prefilter", "availability_zone", inside(wanted))
    if options.query_placement_for_image_type_support and spec.image and not spec.is_bfv:
        if not spec.image.disk_format:
            raise Fails({"AttributeError"})
        yield trait_rule("image_type", f"COMPUTE_IMAGE_TYPE_{spec.image.disk_format.upper()}")
    if options.enable_isolated_aggregate_filtering:
        forbidden = [each for each in known if isolating_traits(each) - marked_traits(spec, "required")]
        if forbidden:
            is_outside = inside(forbidden)
            yield Rule("prefilter", "isolated_aggregates", lambda hosts: [not each for each in is_outside(hosts)])


def marked_traits(spec: RequestSpec, wish: str) -> set[str]:
    """Traits that flavor and image mark."""
    pairs = spec.flavor.extra_specs.items()
    found = {key[len("trait:") :] for key, value in pairs if key.startswith("trait:") and value == wish}
    if wish == "required" and spec.image:
        found |= set(spec.image.properties.get("traits_required", ()))
    return found


def names_project(aggregate: Any, project: str | None) -> bool:
    pairs = aggregate.metadata.items()
    return any(key.startswith("filter_tenant_id") and value == project for key, value in pairs)


def isolating_traits(aggregate: Any) -> set[str]:
    pairs = aggregate.metadata.items()
    return {key[len("trait:") :] for key, value in pairs if key.startswith("trait:") and value == "required"}


def inside(wanted: Sequence[Any]) -> Callable[[list[Host]], list[bool]]:
    return each(lambda host: any(aggregate in wanted for aggregate in host.seen.aggregates))


def trait_rules(spec: RequestSpec, options: Any) -> Iterator[Rule]:
    """Those of the traits that requests imply which are generated here."""
    properties = spec.image.properties if spec.image else {}
    kinds = {"hw_disk_bus": "COMPUTE_STORAGE_BUS", "hw_architecture": "HW_ARCH"}
    traits = [f"{kind}_{properties[name].upper()}" for name, kind in kinds.items() if name in properties]
    if options.image_metadata_prefilter and traits:
        yield trait_rule("image_metadata", *traits)
    if spec.flavor.extra_specs.get("accel:device_profile"):
        yield trait_rule("accelerators", "COMPUTE_ACCELERATORS")


def trait_rule(name: str, *traits: str) -> Rule:
    return Rule("prefilter", name, each(lambda host: all(trait in host.seen.traits for trait in traits)))


def is_enabled(host: Host) -> bool:
    return not host.plain.disabled and "COMPUTE_STATUS_DISABLED" not in host.seen.traits


def capacity_rules(spec: RequestSpec) -> Iterator[Rule]:
    yield Rule("capacity", "disabled", each(is_enabled))
    for name, amount in asked_amounts(spec).items():
        yield Rule("capacity", WORDS.get(name, name), each(has_room(name, amount)))
    required = marked_traits(spec, "required") | spec.request_level_params.root_required
    forbidden = marked_traits(spec, "forbidden") | spec.request_level_params.root_forbidden
    for group in spec.requested_resources:
        required |= group.required_traits
        forbidden |= group.forbidden_traits
    if required or forbidden:
        fits = each(lambda host: required <= host.seen.traits and not forbidden & host.seen.traits)
        yield Rule("capacity", "traits", fits)


def asked_amounts(spec: RequestSpec) -> dict[str, int]:
    """What the extra specs say, and what the request brings along; the flavor's own sizes where neither says."""
    amounts: dict[str, int] = {}
    for key, value in spec.flavor.extra_specs.items():
        if key.startswith("resources:"):
            amounts[key[len("resources:") :]] = int(value)
    for group in spec.requested_resources:
        for name, amount in group.resources.items():
            amounts[name] = amounts.get(name, 0) + amount
    flavor = spec.flavor
    if "VCPU" not in amounts and "PCPU" not in amounts:
        amounts["VCPU"] = flavor.vcpus
    amounts.setdefault("MEMORY_MB", flavor.memory_mb)
    root = 0 if spec.is_bfv else flavor.root_gb
    amounts.setdefault("DISK_GB", root + flavor.ephemeral_gb + math.ceil(flavor.swap / 1024))
    return {name: amount for name, amount in amounts.items() if amount}


def has_room(name: str, amount: int) -> Callable[[Host], bool]:
    def fits(host: Host) -> bool:
        if name not in host.plain.limit or host.plain.allocated[name] + amount > host.plain.limit[name]:
            return False
        least, step = getattr(host.seen, f"min_unit:{name}"), getattr(host.seen, f"step_size:{name}")
        return least <= amount <= host.plain.max_unit[name] and amount % step == 0

    return fits


def filter_rules(filters: Sequence[Any], spec: RequestSpec, index: int) -> Iterator[Rule]:
    for rule in filters:
        if index and rule.run_filter_once_per_request:
            continue
        is_asked = rule.runs_on_rebuild or not spec.is_rebuild
        yield Rule("filter", rule.name, loop_of(rule, spec) if is_asked else each(lambda host: True))


def loop_of(rule: Any, spec: RequestSpec) -> Callable[[list[Host]], list[bool]]:
    name, options = rule.name, rule.options
    if name in FILTER_LOOPS:
        return lambda hosts: FILTER_LOOPS[name](hosts, spec)
    if name in plain.FILTERS:
        return each(lambda host: plain.FILTERS[name](host.plain, spec))
    passes = plain_filters.FILTERS[name]
    if name in ("NUMATopologyFilter", "PciPassthroughFilter"):
        return each(lambda host: narrow_candidates(passes, host.seen, spec))

    def ask(hosts: list[Host]) -> list[bool]:
        answers = [plain_filters.outcome(passes, host.seen, spec, options) for host in hosts]
        errors = [each for each in answers if isinstance(each, Raises)]
        if any(isinstance(each, Chance) for each in errors):
            raise CannotSay("nova leaves it to chance")
        if errors:
            raise Fails({str(each) for each in errors})
        return [bool(each) for each in answers]

    return ask


def narrow_candidates(passes: Any, host: Any, spec: RequestSpec) -> bool:
    """What one of the two filters leaves of a host's allocation candidates is all that the other one sees."""
    answer = passes(host, spec, None)
    left = []
    for candidate in host.allocation_candidates:
        alone = Seen(host)
        alone.allocation_candidates = [candidate]
        if passes(alone, spec, None):
            left.append(candidate)
    host.allocation_candidates = left or host.allocation_candidates
    return bool(answer)


# --- which of them is best -----------------------------------------------------------------------------


@dataclass
class Ranked:
    """A host with its weight and, by weigher, its raw number, normalised number and multiplier."""

    host: Host
    weight: float = 0.0
    scores: dict[str, tuple[float, float, float]] = field(default_factory=dict)


def weigh(hosts: list[Host], spec: RequestSpec, weighers: Sequence[Any]) -> list[Ranked]:
    ranked = [Ranked(host) for host in hosts]
    if len(hosts) < 2:
        return ranked
    for weigher in weighers:
        raw, multipliers = raw_numbers(hosts, spec, weigher)
        normalised = plain.normalise(raw, weigher.minval, weigher.maxval)
        for at, each in enumerate(ranked):
            each.weight += multipliers[at] * normalised[at]
            if multipliers[at]:
                each.scores[weigher.name] = raw[at], normalised[at], multipliers[at]
    return ranked


def raw_numbers(hosts: list[Host], spec: RequestSpec, weigher: Any) -> tuple[list[float], list[float]]:
    """The numbers inside the weigher's bounds, and the multipliers."""
    if weigher.name in WEIGHER_LOOPS:
        raw, multiplier = WEIGHER_LOOPS[weigher.name]
        numbers = [raw(host.plain) for host in hosts]
        multipliers = [multiplier(host.plain) for host in hosts]
    else:
        rule, objects = plain_weighers.WEIGHERS[weigher.name], [host.plain for host in hosts]
        try:
            numbers = [rule.raw(host, spec, weigher.options) for host in objects]
        except plain_weighers.MetricNotFound:
            raise Fails({"ComputeHostMetricNotFound"}) from None
        multipliers = [plain_weighers.multiplier(host, rule, weigher.options) for host in objects]
    if weigher.minval is not None:
        numbers = [max(number, weigher.minval) for number in numbers]
    if weigher.maxval is not None:
        numbers = [min(number, weigher.maxval) for number in numbers]
    return numbers, multipliers


def prefer(ranked: list[Ranked], choice: Any, dice: random.Random) -> list[Ranked]:
    """Best first; equal weights keep their order unless the choice says to shuffle the best of them."""
    ordered = sorted(ranked, key=lambda each: -each.weight)
    if choice.shuffles_best:
        tied = [each for each in ordered if each.weight == ordered[0].weight]
        dice.shuffle(tied)
        ordered = tied + ordered[len(tied) :]
    if choice.host_subset_size > 1:
        pick = dice.randrange(min(choice.host_subset_size, len(ordered)))
        ordered = [ordered[pick], *ordered[:pick], *ordered[pick + 1 :]]
    return ordered


# --- the whole request ---------------------------------------------------------------------------------


class PlainPlacing:
    """One request, placed on plain hosts. What came of it is in its attributes."""

    def __init__(
        self, hosts: list[Host], known: Sequence[Any], pipeline: Any, spec: RequestSpec, dice: random.Random
    ) -> None:
        self.hosts, self.known, self.pipeline, self.spec, self.dice = list(hosts), known, pipeline, spec, dice
        self.steps: list[tuple[str, str, int, int]] = []
        self.best: list[Ranked] = []
        self.chosen: list[Ranked] = []
        self.alternates: list[list[tuple[str, str]]] = []
        self.failed_at: int | None = None
        self.errors: set[str] = set()
        """Nova's classes of the errors it may fail with; empty where it does not."""

    def run(self, uuids: Sequence[str | None], alternates: int) -> PlainPlacing:
        if len(uuids) > 1 and (self.spec.numa_topology or self.spec.pci_requests):
            raise CannotSay("several instances with NUMA cells or devices")
        try:
            for index, uuid in enumerate(uuids):
                if not self.place(index, uuid):
                    self.failed_at = index
                    return self
            self.look_for_alternates(alternates)
        except Fails as failure:
            self.errors = failure.errors
        return self

    def place(self, index: int, uuid: str | None) -> bool:
        self.spec = self.spec.for_instance(uuid)
        self.narrow(index, self.steps)
        if not self.hosts:
            return False
        ranked = self.rank()
        self.best = self.best or ranked[:KEPT_BEST]
        self.chosen.append(ranked[0])
        ranked[0].host.consume(self.spec)
        self.spec = self.spec.with_group_host(ranked[0].host.plain.host)
        return True

    def narrow(self, index: int, steps: list[tuple[str, str, int, int]]) -> None:
        for rule in rules_of(self.pipeline, self.spec, index, self.known):
            if not self.hosts:
                return
            before = len(self.hosts)
            answers = rule.ask(self.hosts)
            self.hosts = [host for host, stays in zip(self.hosts, answers, strict=True) if stays]
            if index == 0 or len(self.hosts) < before:
                steps.append((rule.stage, rule.name, before, len(self.hosts)))

    def rank(self) -> list[Ranked]:
        ranked = weigh(self.hosts, self.spec, self.pipeline.rules.weighers)
        if ranked:
            ranked = prefer(ranked, self.pipeline.choice, self.dice)
        self.hosts = [each.host for each in ranked]
        return ranked

    def look_for_alternates(self, count: int) -> None:
        """Next best hosts in the same cell to which no instance went; they must still fit after the last one."""
        if count and len(self.chosen) > 1:
            self.narrow(len(self.chosen) - 1, [])
            self.rank()
        taken = [each.host.name for each in self.chosen]
        for each in self.chosen:
            cell = each.host.plain.cell
            free = [host.name for host in self.hosts if host.name not in taken and host.plain.cell == cell]
            self.alternates.append(free[:count])
