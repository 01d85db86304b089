# SPDX-License-Identifier: Apache-2.0
"""Asks placement for the allocation candidates of requests that the replica cannot answer, as nova-scheduler asks.

These are requests for resources of more than the host's own provider, all requests until every provider was read, and
those for which the replica has no host: placement has the last word.

A request asks in *groups*: one without a suffix, whose resources may come from several providers of a host, and
groups with a suffix (of flavors, ports, accelerators), each served by one provider. Aggregates that confine the host
itself are not part of the query: the prefilter stage checks them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from roost.errors import PlacementBadRequest
from roost.hosts import HostTable
from roost.hosts.capacity import DISABLED_TRAIT
from roost.model import RequestSpec
from roost.model.numa import InstanceTopology
from roost.model.request import RequestGroup
from roost.model.resources import (
    DISK_GB,
    MEMORY_MB,
    VCPU,
    AllocationCandidate,
    AllocationCandidates,
    feature_traits,
    is_resource_class,
    parse_amount,
    persistent_memory,
    requested_amounts,
)
from roost.nova.placement.client import PlacementClient
from roost.nova.placement.providers import PCPU, ProviderReader, decoding
from roost.scheduler.prefilters import PrefilterOptions, implied_traits

HYPERTHREADING = "HW_CPU_HYPERTHREADING"
GROUP_POLICIES = ("none", "isolate")

_SUFFIX = r"(?P<suffix>[A-Za-z0-9_-]{1,64})?"
_RESOURCES, _TRAIT = re.compile(rf"resources{_SUFFIX}:(?P<name>.+)"), re.compile(rf"trait{_SUFFIX}:(?P<name>.+)")
_MARKS = {"required": "", "forbidden": "!"}

Query = tuple[tuple[str, str], ...]
"""Parameters of a GET of /allocation_candidates; a name may occur several times."""


@dataclass
class _Group:
    resources: dict[str, int] = field(default_factory=dict)
    traits: set[str] = field(default_factory=set)
    """Required traits, and forbidden ones after an exclamation mark."""
    aggregates: list[str] = field(default_factory=list)
    """Each `in:` or `!in:` and uuids of aggregates."""
    in_tree: str | None = None

    def parameters(self, suffix: str) -> Iterator[tuple[str, str]]:
        yield f"resources{suffix}", ",".join(f"{name}:{amount}" for name, amount in sorted(self.resources.items()))
        if self.traits:
            yield f"required{suffix}", _traits(self.traits)
        for choice in self.aggregates:
            yield f"member_of{suffix}", choice
        if self.in_tree:
            yield f"in_tree{suffix}", self.in_tree


def needs_candidates(spec: RequestSpec) -> bool:
    """Whether a request asks for something that the host's own provider alone cannot be asked for."""
    if spec.requested_resources or spec.same_subtree or dedicated_cpus(spec.numa_topology):
        return True
    return PCPU in spec.amounts or any(_suffix_of(key) for key in spec.flavor.extra_specs)


def dedicated_cpus(topology: InstanceTopology | None) -> int:
    """How many CPUs of its own a guest needs of its host, that of its emulator threads included."""
    if topology is None:
        return 0
    own = sum(len(cell.pcpuset) for cell in topology.cells)
    return own + (topology.emulator_threads_policy == "isolate" if own else 0)


def candidate_queries(
    spec: RequestSpec, root_traits: Iterable[str], node_uuid: str | None, *, takes_shared_cpus: bool = True
) -> list[Query]:
    """The queries whose answers together are the candidates of a request.

    `root_traits`: that the host must have besides those which the request names. `node_uuid`: of the only node it may
    go to. Dedicated CPUs are asked for as PCPU and then, if all CPUs are and `takes_shared_cpus` says so, as VCPU:
    not all hosts have PCPU.
    """
    wanted = {*spec.root_required, *root_traits}
    unwanted = {f"!{name}" for name in (*spec.root_forbidden, DISABLED_TRAIT)}
    common = [("root_required", _traits(wanted | unwanted))]
    common += [("in_tree", node_uuid)] if node_uuid else []
    common += [("same_subtree", ",".join(each)) for each in spec.same_subtree]
    topology = spec.numa_topology
    if not dedicated_cpus(topology) or _asks_for_cpus(spec):
        return [_query(spec, common, is_dedicated=False)]
    is_mixed = topology is not None and any(cell.cpuset for cell in topology.cells)
    forms = [True, False] if takes_shared_cpus and not is_mixed else [True]
    return [_query(spec, common, is_dedicated) for is_dedicated in forms]


def _query(spec: RequestSpec, common: list[tuple[str, str]], is_dedicated: bool) -> Query:
    groups = _groups_of(spec, is_dedicated)
    parameters = [each for suffix, group in groups.items() for each in group.parameters(suffix)]
    if policy := _group_policy(spec, groups):
        parameters.append(("group_policy", policy))
    return tuple(sorted([*parameters, *common]))


def _groups_of(spec: RequestSpec, is_dedicated: bool) -> dict[str, _Group]:
    """Suffix -> group of the request; those without resources are left out. `is_dedicated`: CPUs are PCPU."""
    groups: dict[str, _Group] = {"": _Group()}
    for key, value in spec.flavor.extra_specs.items():
        if (match := _RESOURCES.fullmatch(key)) and is_resource_class(match["name"]):
            if (amount := parse_amount(value)) is not None:
                groups.setdefault(match["suffix"] or "", _Group()).resources[match["name"]] = amount
        elif (match := _TRAIT.fullmatch(key)) and value in _MARKS:
            groups.setdefault(match["suffix"] or "", _Group()).traits.add(_MARKS[value] + match["name"])
    own = groups[""]
    own.traits |= feature_traits(spec) | (spec.image.traits_required if spec.image else frozenset())
    own.resources |= persistent_memory(spec.flavor.extra_specs)
    if is_dedicated:
        _ask_for_dedicated_cpus(own, spec.numa_topology)
    groups |= {each.requester_id or "": _requested(each) for each in spec.requested_resources if each.requester_id}
    _add_defaults(groups, spec)
    for group in groups.values():
        group.resources = {name: amount for name, amount in group.resources.items() if amount}
    return {suffix: group for suffix, group in groups.items() if group.resources}


def _ask_for_dedicated_cpus(group: _Group, topology: InstanceTopology | None) -> None:
    assert topology is not None  # noqa: S101 - it has dedicated CPUs
    group.resources[PCPU] = dedicated_cpus(topology)
    if shared := sum(len(cell.cpuset) for cell in topology.cells):
        group.resources[VCPU] = shared
    threads = {cell.cpu_thread_policy for cell in topology.cells}
    if "isolate" in threads:
        group.traits.add(f"!{HYPERTHREADING}")
    elif "require" in threads:
        group.traits.add(HYPERTHREADING)


def _requested(each: RequestGroup) -> _Group:
    """A group of a port or an accelerator."""
    traits = {*each.required_traits, *(f"!{name}" for name in each.forbidden_traits)}
    aggregates = [f"in:{','.join(sorted(choice))}" for choice in each.aggregates]
    if each.forbidden_aggregates:
        aggregates.append(f"!in:{','.join(sorted(each.forbidden_aggregates))}")
    return _Group(dict(each.resources), traits, aggregates, each.in_tree)


def _add_defaults(groups: Mapping[str, _Group], spec: RequestSpec) -> None:
    """Add the flavor's own amounts, of classes that no group asks for."""
    asked = {name for group in groups.values() for name in group.resources}
    amounts = requested_amounts(spec.flavor, spec.is_bfv)
    has_cpus = not asked.isdisjoint((VCPU, PCPU))
    for name in (VCPU, MEMORY_MB, DISK_GB):
        if name not in asked and not (name == VCPU and has_cpus):
            groups[""].resources[name] = amounts.get(name, 0)


def _group_policy(spec: RequestSpec, groups: Mapping[str, _Group]) -> str | None:
    """The policy of the flavor; `none` where the flavor has one group with a suffix at most, and others add more."""
    policy = spec.flavor.extra_specs.get("group_policy")
    if policy in GROUP_POLICIES:
        return policy
    suffixes = [suffix for suffix in groups if suffix]
    of_flavor = {_suffix_of(key) for key in spec.flavor.extra_specs} - {None}
    return "none" if len(suffixes) > 1 and len(of_flavor) <= 1 else None


def _asks_for_cpus(spec: RequestSpec) -> bool:
    """Whether the flavor says itself which class its CPUs are."""
    found = (_RESOURCES.fullmatch(key) for key in spec.flavor.extra_specs)
    return any(match["name"] in (VCPU, PCPU) for match in found if match)


def _suffix_of(key: str) -> str | None:
    match = _RESOURCES.fullmatch(key) or _TRAIT.fullmatch(key)
    return match["suffix"] if match else None


def _traits(names: Iterable[str]) -> str:
    """Traits in nova's order: required ones, then forbidden ones, each sorted."""
    return ",".join(sorted(names, key=lambda name: (name.startswith("!"), name)))


def decode_allocation_candidates(answers: Iterable[Mapping[str, Any]]) -> AllocationCandidates:
    """The candidates in several answers of /allocation_candidates, those of the first answer first."""
    by_node: dict[str, list[AllocationCandidate]] = {}
    free: dict[tuple[str, str], int] = {}
    with decoding("/allocation_candidates"):
        for answer in answers:
            for request in answer["allocation_requests"]:
                candidate = _candidate(request)
                for uuid in candidate.allocations:
                    by_node.setdefault(uuid, []).append(candidate)
            for uuid, summary in answer["provider_summaries"].items():
                for name, each in summary["resources"].items():
                    free[str(uuid), str(name)] = int(each["capacity"]) - int(each["used"])
    return AllocationCandidates({uuid: tuple(each) for uuid, each in by_node.items()}, free)


def _candidate(request: Mapping[str, Any]) -> AllocationCandidate:
    allocations = {
        str(uuid): {str(name): int(amount) for name, amount in each["resources"].items()}
        for uuid, each in request["allocations"].items()
    }
    mappings = {str(suffix): [str(uuid) for uuid in each] for suffix, each in request["mappings"].items()}
    return AllocationCandidate(allocations, mappings)


LOG = logging.getLogger(__name__)


class CandidateReader:
    """Reads allocation candidates. May be shared by threads."""

    def __init__(
        self,
        client: PlacementClient,
        providers: ProviderReader,
        prefilters: PrefilterOptions,
        *,
        takes_shared_cpus: bool = True,
    ) -> None:
        """`takes_shared_cpus`: dedicated CPUs may be claimed as VCPU of hosts that do not offer PCPU."""
        self._client, self._providers, self.prefilters = client, providers, prefilters
        self._takes_shared_cpus = takes_shared_cpus

    def find(self, spec: RequestSpec, table: HostTable, is_last_look: bool) -> AllocationCandidates | None:
        """The candidates of a request; None where the replica can tell, unless `is_last_look`."""
        if not is_last_look and self._providers.is_complete and not self._is_beyond_replica(spec):
            return None
        traits = frozenset().union(*implied_traits(spec, self.prefilters).values())
        node = _only_node(spec, table)
        queries = candidate_queries(spec, traits, node, takes_shared_cpus=self._takes_shared_cpus)
        try:
            answers = self._client.map(lambda query: self._client.get("/allocation_candidates", query), queries)
        except PlacementBadRequest as error:
            LOG.warning("placement does not understand what flavor %s asks for: %s", spec.flavor.name, error)
            return AllocationCandidates({}, {})
        return decode_allocation_candidates(answers)

    def _is_beyond_replica(self, spec: RequestSpec) -> bool:
        return needs_candidates(spec) or not self._providers.other_classes.isdisjoint(spec.amounts)


def _only_node(spec: RequestSpec, table: HostTable) -> str | None:
    """The uuid of the only node that a request may go to; None if it may go to several, or to an unknown one."""
    wanted = spec.requested_destination
    host, node = (wanted.host, wanted.node) if wanted and wanted.host else (None, None)
    host = host or (spec.force_hosts[0] if spec.force_hosts else None)
    node = node or (spec.force_nodes[0] if spec.force_nodes else None)
    if not host:
        return None
    rows = [row for row in table.rows_of_host(host) if node in (None, "", table.names[row][1])]
    return table.uuids.get(rows[0]) if len(rows) == 1 else None
