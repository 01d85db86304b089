# SPDX-License-Identifier: Apache-2.0
"""Completes a request before hosts are chosen: NUMA topology and PCI requests, trust levels, enforced group policy.

Used by the Python API, the command and the service alike.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Collection, Sequence

from roost.errors import UnsupportedPolicy
from roost.filters.trusted import EXTRA_SPEC as TRUST_EXTRA_SPEC
from roost.hosts import HostTable
from roost.model import RequestSpec, ServerGroup
from roost.model.numa import derive_topology
from roost.model.pci import aliases_from_option, requests_from_flavor
from roost.options.settings import Settings
from roost.scheduler.options import SchedulerOptions
from roost.services.attestation import AttestationClient, AttestationOptions, TrustLevels

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
