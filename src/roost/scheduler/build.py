# SPDX-License-Identifier: Apache-2.0
"""From options to a pipeline, and from a request as it came to one that can be placed.

`build_pipeline` finds the enabled plugins and makes them: for the Python API, the command and the service alike.
`Preparation` adds what flavor and image imply: NUMA topology, PCI requests, trust levels, enforced group policy.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from roost.errors import PluginFailed, RoostError, UnsupportedPolicy
from roost.filters.trusted import EXTRA_SPEC as TRUST_EXTRA_SPEC
from roost.hosts import HostTable
from roost.model import RequestSpec, ServerGroup
from roost.model.numa import derive_topology
from roost.model.pci import aliases_from_option, requests_from_flavor
from roost.options.settings import DEFAULT_ORIGIN, Settings
from roost.plugins.context import PluginContext, current_context
from roost.plugins.nova_conf import PluginOptions
from roost.plugins.registry import FILTERS, WEIGHERS, find_filters, find_weighers
from roost.scheduler.incremental.engine import IncrementalEngine
from roost.scheduler.options import (
    DEFAULT_FILTERS,
    NOVA,
    NOVA_FILTERS,
    CloudOptions,
    SchedulerOptions,
)
from roost.scheduler.pipeline import MakeEngine, Pipeline
from roost.scheduler.prefilters import PrefilterOptions
from roost.scheduler.search import Choice
from roost.services.attestation import AttestationClient, AttestationOptions, TrustLevels


def build_pipeline(
    settings: Settings,
    places: Sequence[Path] = (),
    context: PluginContext | None = None,
    engine: MakeEngine = IncrementalEngine,
) -> Pipeline:
    """A pipeline of the enabled plugins with their options.

    `places`: folders where modules of plugins may lie; `context`: what plugins can see of options and fleet.
    """
    own = settings.fill(SchedulerOptions)
    with (context or PluginContext(PluginOptions(settings))).bound():
        filters = find_filters(own.available_filters, filters_to_run(settings), places)
        weighers = find_weighers(own.weight_classes, places)
        return Pipeline(
            make_plugins(filters, settings),
            make_plugins(weighers, settings),
            Choice(own.host_subset_size, own.shuffle_best_same_weighed_hosts),
            prefilters=settings.fill(PrefilterOptions),
            reads_one_cell=True,
            engine=engine,
        )


def filters_to_run(settings: Settings) -> tuple[str, ...]:
    """Names of the filters that run, in order. In a nova cloud whose nova.conf names none they are nova 34's."""
    found = settings.fill(SchedulerOptions).filters_to_run
    is_default = settings.origin("filter_scheduler", "enabled_filters") == DEFAULT_ORIGIN
    is_novas = found == DEFAULT_FILTERS and is_default and settings.fill(CloudOptions).cloud == NOVA
    return NOVA_FILTERS if is_novas else found


def make_plugins(plugins: Sequence[Any], settings: Settings) -> list[Any]:
    """An instance of each class: a built-in gets its options, one in nova's shape takes no argument."""
    built_in = {*FILTERS, *WEIGHERS}
    options = {each: settings.fill(each.Options) for each in plugins if each in built_in and each.Options}
    return [each(options.get(each)) if each in built_in else _make_plain(each) for each in plugins]


def _make_plain(plugin: Any) -> Any:
    """An instance of a plugin, which takes no argument; what it raises is an error that names it."""
    try:
        with current_context().activated():
            return plugin()
    except RoostError:
        raise
    except Exception as cause:
        raise PluginFailed(plugin.__name__, "", cause) from cause


def keep_freed_memory() -> None:
    """Make glibc reuse the memory of freed arrays instead of returning it to the kernel each time.

    glibc raises its mmap and trim thresholds to the size of the largest block freed so far; without that, half of a
    cold request is page faults. The block is never touched, so it takes no memory. A no-op on other C libraries.
    """
    np.empty(31 << 20, dtype=np.uint8)


_ENFORCED_BY = {
    "affinity": "ServerGroupAffinityFilter",
    "anti-affinity": "ServerGroupAntiAffinityFilter",
    "soft-affinity": "ServerGroupSoftAffinityWeigher",
    "soft-anti-affinity": "ServerGroupSoftAntiAffinityWeigher",
}


class Preparation:
    """Completes requests, and refuses those whose group policy no enabled plugin enforces."""

    def __init__(self, settings: Settings, plugins: Collection[str]) -> None:
        """`plugins`: names of the enabled filters and weighers."""
        alias = settings.fill(SchedulerOptions).alias
        self._aliases = aliases_from_option(alias) if alias else {}
        attestation = settings.fill(AttestationOptions)
        self._trust: TrustLevels | None = None
        """What the attestation service says of nodes; None where none is configured."""
        if attestation.attestation_server:
            timeout = attestation.attestation_auth_timeout
            self._trust = TrustLevels(AttestationClient(attestation), timeout, time.time)
        self._unenforced = {policy: rule for policy, rule in _ENFORCED_BY.items() if rule not in plugins}
        """Group policy that is not enforced -> the filter or weigher that would enforce it."""

    def complete(self, spec: RequestSpec) -> RequestSpec:
        """The request with the NUMA topology and PCI requests that flavor and image imply, unless it has some."""
        if spec.instance_group:
            self._check_policy(spec.instance_group)
        if not (spec.flavor.extra_specs or spec.image) or spec.numa_topology or spec.pci_requests:
            return spec
        topology = derive_topology(spec.flavor, spec.image)
        devices = requests_from_flavor(spec.flavor, spec.image, self._aliases)
        if topology is None and not devices:
            return spec
        return dataclasses.replace(spec, numa_topology=topology, pci_requests=devices)

    def asks_for_trust(self, spec: RequestSpec) -> bool:
        """Whether the request asks for a trust level of the attestation service."""
        return bool(self._trust and spec.flavor.extra_specs.get(TRUST_EXTRA_SPEC))

    def ask_for_trust(self, names: Sequence[tuple[str, str]]) -> dict[str, str]:
        """Node -> trust level; may call the attestation service, which is slow."""
        return self._trust.levels([node for _, node in names]) if self._trust else {}

    def note_trust(self, spec: RequestSpec, table: HostTable) -> None:
        """Write trust levels into the table, if the request asks for one."""
        if self._trust and self.asks_for_trust(spec):
            table.set_trust(self.ask_for_trust(table.names))

    def _check_policy(self, group: ServerGroup) -> None:
        """Raise UnsupportedPolicy for a policy that no enabled plugin enforces."""
        needed = self._unenforced.get(group.policy or "")
        if needed:
            raise UnsupportedPolicy(
                f"server group {group.name or group.uuid} has the policy {group.policy}, which {needed} enforces",
                f"{needed} is not enabled",
            )
