# SPDX-License-Identifier: Apache-2.0
"""The door for programs: a fleet, the options, and a scheduler that remembers what it placed."""

from __future__ import annotations

import dataclasses
import random
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from roost.errors import UnknownName, UnsupportedPolicy
from roost.fleet import Fleet
from roost.model import Decision, RequestSpec, Selection, ServerGroup
from roost.scheduler.explain import Rejection, explain
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
        self._random = random.Random(seed)  # noqa: S311 - picks among equals; nothing secret
        self._placed: dict[str, tuple[int, RequestSpec]] = {}
        self._members: dict[str, tuple[str, ...]] = {}

    def place(self, spec: RequestSpec, alternates: int | None = None) -> Decision:
        """Choose hosts and take their resources; NoValidHost, and nothing taken, if one instance has none.

        `alternates`: how many further hosts to name per instance; max_attempts - 1 unless said otherwise.
        """
        uuids = [spec.instance_uuid or self._new_uuid()]
        uuids += [self._new_uuid() for _ in range(spec.num_instances - 1)]
        spec = self._with_current_group(spec, uuids)
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
        held = self._placed.pop(selection.instance_uuid or "", None)
        if held is None:
            raise UnknownName(
                f"instance {selection.instance_uuid} holds nothing here",
                "it was released before, or placed elsewhere",
            )
        row, spec = held
        self.table.release(row, spec)
        group = spec.instance_group
        if group and group.uuid in self._members:
            rest = tuple(each for each in self._members[group.uuid] if each != spec.instance_uuid)
            self._members[group.uuid] = rest

    def explain(self, spec: RequestSpec) -> list[Rejection]:
        """Host by host, why those who cannot take one instance of the request cannot. Takes nothing."""
        return explain(self.pipeline, self.table, self._with_current_group(spec, [spec.instance_uuid]))

    def _remember(self, spec: RequestSpec, decision: Decision) -> None:
        for selection in decision.selections:
            row = self.table.find_row((selection.host, selection.node))
            if row is not None and selection.instance_uuid:
                self._placed[selection.instance_uuid] = (row, spec.for_instance(selection.instance_uuid))
        if spec.instance_group and spec.instance_group.uuid:
            self._members[spec.instance_group.uuid] = spec.instance_group.members

    def _with_current_group(self, spec: RequestSpec, uuids: Sequence[str | None]) -> RequestSpec:
        """The group as it is now: with the members placed here before, the new ones, and where all of them are."""
        group = spec.instance_group
        if group is None:
            return spec
        self._check_policy(group)
        known = self._members.get(group.uuid or "", ())
        new = [each for each in uuids if each]
        members = tuple(dict.fromkeys((*group.members, *known, *new)))
        rows = [row for row in map(self.table.row_of_instance.get, members) if row is not None]
        hosts = tuple(dict.fromkeys((*group.hosts, *(self.table.names[row][0] for row in rows))))
        return dataclasses.replace(spec, instance_group=dataclasses.replace(group, members=members, hosts=hosts))

    def _check_policy(self, group: ServerGroup) -> None:
        """A policy that nothing enforces must not look as if it were kept."""
        needed = _ENFORCED_BY.get(group.policy or "")
        enabled = {each.name for each in self.pipeline.filters} | {each.name for each in self.pipeline.weighers}
        if needed and needed not in enabled:
            raise UnsupportedPolicy(
                f"server group {group.name or group.uuid} has the policy {group.policy}, which {needed} enforces",
                f"{needed} is not enabled",
            )

    def _new_uuid(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))
