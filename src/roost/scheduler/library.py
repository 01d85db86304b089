# SPDX-License-Identifier: Apache-2.0
"""The door for programs: a fleet, the options, and a scheduler that remembers what it placed."""

from __future__ import annotations

import dataclasses
import random
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from roost.attestation import AttestationClient, AttestationOptions, TrustLevels
from roost.errors import UnknownName, UnsupportedPolicy
from roost.filters.trusted import EXTRA_SPEC as TRUST_EXTRA_SPEC
from roost.fleet import Fleet
from roost.model import Decision, RequestSpec, Selection, ServerGroup
from roost.model.numa import derive_topology
from roost.model.pci import aliases_from_option, requests_from_flavor
from roost.scheduler.explain import Rejection, explain
from roost.scheduler.groups import KnownGroups
from roost.scheduler.profile import Profile, profile
from roost.scheduler.settings import SchedulerOptions, build_pipeline, read_options

_ENFORCED_BY = {
    "affinity": "ServerGroupAffinityFilter",
    "anti-affinity": "ServerGroupAntiAffinityFilter",
    "soft-affinity": "ServerGroupSoftAffinityWeigher",
    "soft-anti-affinity": "ServerGroupSoftAntiAffinityWeigher",
}


class Scheduler:
    """Places requests on a fleet, one after the other. The fleet itself is not changed."""

    def __init__(
        self,
        fleet: Fleet,
        options: Mapping[str, Mapping[str, Any]] | None = None,
        seed: int | None = None,
        config_files: Sequence[str | Path] = (),
    ) -> None:
        """Options are section -> name -> value, by nova's names: these win over files, files over the fleet's."""
        files = [Path(file) for file in config_files]
        settings = read_options(files, fleet.options, options)
        self.options = settings.fill(SchedulerOptions)
        self.pipeline = build_pipeline(settings, [file.resolve().parent for file in files] + [Path.cwd()])
        self.table = fleet.table_at(self.options.service_down_time)
        self.table.packs_numa_cells = self.options.packing_host_numa_cells_allocation_strategy
        _keep_freed_memory()
        self._aliases = aliases_from_option(self.options.alias)
        self._trust = _trust_levels(settings.fill(AttestationOptions))
        self._random = random.Random(seed)  # noqa: S311 - picks among equals; nothing secret
        self._placed: dict[tuple[str | None, str, str], list[tuple[int, RequestSpec]]] = {}
        """Instance, host and node -> row and what it holds there; twice something while it is resized on its host."""
        self._groups = KnownGroups(self.table)
        names = {each.name for each in self.pipeline.filters} | {each.name for each in self.pipeline.weighers}
        self._unenforced = {policy: rule for policy, rule in _ENFORCED_BY.items() if rule not in names}
        """Policies of server groups that nothing keeps -> the filter or weigher that would."""

    def place(self, spec: RequestSpec, alternates: int | None = None) -> Decision:
        """Choose hosts and take their resources; NoValidHost, and nothing taken, if one instance has none.

        `alternates`: how many further hosts to name per instance; max_attempts - 1 unless said otherwise.
        """
        uuids = [spec.instance_uuid or self._new_uuid()]
        uuids += [self._new_uuid() for _ in range(spec.num_instances - 1)]
        spec = self._with_current_group(self._with_derived(spec), uuids)
        wanted = self.options.max_attempts - 1 if alternates is None else alternates
        decision = self.pipeline.place(
            self.table,
            spec,
            uuids,
            randomness=self._random,
            clock=time.perf_counter_ns,
            alternates=wanted,
        )
        self._remember(spec, decision)
        return decision

    def release(self, selection: Selection) -> None:
        """Give back what a selection of this scheduler took."""
        here = selection.instance_uuid, selection.host, selection.node
        held = self._placed.get(here)
        if not held:
            raise UnknownName(
                f"instance {selection.instance_uuid} holds nothing here",
                "it was released before, or placed elsewhere",
            )
        specs = [spec for _, spec in held]
        row, spec = held.pop(specs.index(selection.placed) if selection.placed in specs else -1)
        if not held:
            del self._placed[here]
        self.table.release(row, spec)
        self._groups.forget(spec.instance_group, spec.instance_uuid)

    def explain(self, spec: RequestSpec) -> list[Rejection]:
        """Host by host, why those who cannot take one instance of the request cannot. Takes nothing."""
        spec = self._with_current_group(self._with_derived(spec), [spec.instance_uuid])
        return explain(self.pipeline, self.table, spec)

    def profile(self, spec: RequestSpec) -> Profile:
        """Where the time of such a request goes. Takes nothing."""
        spec = self._with_current_group(self._with_derived(spec), [spec.instance_uuid])
        return profile(self.pipeline, self.table, spec, self._random, time.perf_counter_ns)

    def _remember(self, spec: RequestSpec, decision: Decision) -> None:
        for selection in decision.selections:
            row, placed = selection.row, selection.placed
            if placed is None:
                continue
            if spec.is_rebuild:  # it stays where it is, with what it has
                self.table.release(row, placed)
                continue
            if placed.image:
                self.table.note_image(row, placed)
            here = selection.instance_uuid, selection.host, selection.node
            self._placed.setdefault(here, []).append((row, placed))
        if spec.instance_group:
            uuids = [each.instance_uuid for each in decision.selections if each.instance_uuid]
            self._groups.note(spec.instance_group, uuids, [each.host for each in decision.selections])

    def _with_derived(self, spec: RequestSpec) -> RequestSpec:
        """With the NUMA topology and the PCI requests that flavor and image imply, unless they are given."""
        if self._trust and spec.flavor.extra_specs.get(TRUST_EXTRA_SPEC):
            self.table.set_trust(self._trust.levels([node for _, node in self.table.names]))
        if not (spec.flavor.extra_specs or spec.image) or spec.numa_topology or spec.pci_requests:
            return spec
        topology = derive_topology(spec.flavor, spec.image)
        devices = requests_from_flavor(spec.flavor, spec.image, self._aliases)
        if topology is None and not devices:
            return spec
        return dataclasses.replace(spec, numa_topology=topology, pci_requests=devices)

    def _with_current_group(self, spec: RequestSpec, uuids: Sequence[str | None]) -> RequestSpec:
        """The group as it is now: with the members placed here before, the new ones, and where all of them are."""
        group = spec.instance_group
        if group is None:
            return spec
        self._check_policy(group)
        return spec.with_group(self._groups.current(group, [each for each in uuids if each]))

    def _check_policy(self, group: ServerGroup) -> None:
        """A policy that nothing enforces must not look as if it were kept."""
        needed = self._unenforced.get(group.policy or "")
        if needed:
            raise UnsupportedPolicy(
                f"server group {group.name or group.uuid} has the policy {group.policy}, which {needed} enforces",
                f"{needed} is not enabled",
            )

    def _new_uuid(self) -> str:
        digits = f"{self._random.getrandbits(128):032x}"
        variant = "89ab"[int(digits[16], 16) & 3]
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def _trust_levels(options: AttestationOptions) -> TrustLevels | None:
    """The attestation service, where one is configured."""
    if not options.attestation_server:
        return None
    return TrustLevels(AttestationClient(options), options.attestation_auth_timeout, time.time)


def _keep_freed_memory() -> None:
    """Let the C library keep what arrays give back, for the next request, instead of asking the kernel each time.

    glibc raises its thresholds to the size of the largest block it has seen freed: half of a cold request would
    otherwise be page faults. The block is never touched, so it costs nothing; elsewhere this does nothing.
    """
    np.empty(31 << 20, dtype=np.uint8)
