# SPDX-License-Identifier: Apache-2.0
"""The Python API: a scheduler over a fleet that records what it placed."""

from __future__ import annotations

import random
import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from roost.errors import BadInput, PluginNotFound, UnknownName
from roost.ledger.claim import GroupPlaces
from roost.model import Decision, RequestSpec, Selection, ServerGroup
from roost.model.kinds import lazy
from roost.model.resources import move_of
from roost.model.uuids import canonical_uuid
from roost.options.files import Sections
from roost.plugins.context import PluginContext, TableState
from roost.plugins.nova_conf import PluginOptions
from roost.plugins.registry import places_of
from roost.questions.counting import count_headroom, headroom_key
from roost.questions.explain import explain_host, explain_request
from roost.questions.funnel import find_row
from roost.questions.headroom import AVAILABILITY_ZONE, MOST_PLACED, Progress, Trial, Trials
from roost.questions.profile import Profile, profile
from roost.questions.records import Explanation, Headroom, HostExplanation
from roost.scheduler.all_options import read_options
from roost.scheduler.build import Preparation, build_pipeline, keep_freed_memory
from roost.scheduler.groups import ClosedHosts, GroupTracker, find_closed_sources
from roost.scheduler.incremental.engine import IncrementalEngine
from roost.scheduler.options import SchedulerOptions
from roost.scheduler.pipeline import MakeEngine
from roost.services.log_handlers import tolerate_failing_handlers
from roost.sources.fleet_file import Fleet
from roost.sources.snapshot import OWN_PLUGIN_HINT, with_own_weighers


@dataclass(eq=False)
class _Placement:
    """One placed instance."""

    row: int
    selection: Selection
    consumed: RequestSpec
    """The request as the table holds it, for `HostTable.release`."""


class Scheduler:
    """Places requests on a copy of a fleet, one after the other."""

    def __init__(
        self,
        fleet: Fleet,
        options: Mapping[str, Mapping[str, Any]] | None = None,
        seed: int | None = None,
        config_files: Sequence[str | Path] = (),
        engine: MakeEngine = IncrementalEngine,
        tracks_builds: bool = False,
    ) -> None:
        """`options`: section -> name -> value, by nova's names; they win over files, and files over the fleet's.

        The options of a snapshot are facts: they win over files, too.
        `engine`: finds the hosts. For a scheduler that answers one request, FullScanEngine caches nothing.
        `tracks_builds`: a placed instance counts in `num_io_ops` of its host until `mark_built`; by default it is
        built as soon as it is placed.
        """
        files = [Path(file) for file in config_files]
        if fleet.options_win:
            options = _with_facts(fleet.options, options or {}, files)
        settings = read_options(files, fleet.options, options)
        self.options = settings.fill(SchedulerOptions)
        self._fleet = fleet
        context = PluginContext(
            PluginOptions(settings, files, fleet.options, options or {}),
            TableState(lambda: self.table, self._find_group),
        )
        try:
            self.pipeline = build_pipeline(settings, places_of(files), context, engine)
        except PluginNotFound as error:
            raise PluginNotFound(error.message, OWN_PLUGIN_HINT if fleet.options_win else error.hint) from error
        self.table = fleet.table_at(self.options.seconds_until_down)
        self.table.packs_numa_cells = self.options.packing_host_numa_cells_allocation_strategy
        self.table.wall_clock = partial(datetime.now, UTC)
        keep_freed_memory()
        self._preparation = Preparation(settings, self.pipeline.plugin_names)
        self._random = random.Random(seed)  # noqa: S311 - picks among equals; nothing secret
        self._tracks_builds = tracks_builds
        self._placed: dict[tuple[str | None, str, str], list[_Placement]] = {}
        """(Instance, host, node) -> what was consumed there; two entries while it is resized on its host."""
        tolerate_failing_handlers("roost")  # of the program's log: a placement fails for no line

    @lazy
    def _groups(self) -> GroupTracker:
        return GroupTracker(self.table)

    def place(self, spec: RequestSpec, alternates: int | None = None) -> Decision:
        """Choose hosts and consume their resources; NoValidHost, and nothing consumed, if one instance has none.

        `alternates`: how many further hosts to name per instance; None: max_attempts - 1.
        """
        uuids = [spec.instance_uuid or self._new_uuid()]
        uuids += [self._new_uuid() for _ in range(spec.num_instances - 1)]
        spec = self._prepared(spec, uuids)
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
        """Release the resources of a selection of this scheduler."""
        placement = self._find(selection)
        here = selection.instance_uuid, selection.host, selection.node
        self._placed[here].remove(placement)
        if not self._placed[here]:
            del self._placed[here]
        spec = placement.consumed
        self.table.release(placement.row, spec)
        if spec.instance_group:
            self._groups.forget(spec.instance_group, spec.instance_uuid)

    def mark_built(self, selection: Selection) -> None:
        """Count the instance of a selection as built, no longer in `num_io_ops` of its host. Idempotent."""
        placement = self._find(selection)
        placement.consumed = self.table.finish_build(placement.row, placement.consumed)

    def _find(self, selection: Selection) -> _Placement:
        """What was consumed for a selection of this scheduler, or for one that is equal to it."""
        held = self._placed.get((selection.instance_uuid, selection.host, selection.node), [])
        own = (each for each in held if each.selection is selection)
        equal = (each for each in held if each.selection.placed == selection.placed)
        found = next(chain(own, equal), None)
        if found is None:
            raise UnknownName(
                f"instance {selection.instance_uuid} holds nothing here",
                "it was released before, or placed elsewhere",
            )
        return found

    def explain(self, spec: RequestSpec) -> Explanation:
        """Why the request fits where it does, or nowhere; `rejections` has the first reason of each host.

        Consumes nothing, and leaves chance out: the best host is taken for the chosen one.
        """
        spec = self._prepared(spec, [spec.instance_uuid])
        return explain_request(self.pipeline, self.table, spec, self.options.max_attempts - 1)

    def explain_host(self, spec: RequestSpec, host: str, node: str | None = None) -> HostExplanation:
        """Everything that rejects one host, or why another one won. Consumes nothing.

        `node`: for a host with several; UnknownName, with the nearest name, if there is no such host or node.
        """
        row = find_row(self.table, host, node)
        spec = self._prepared(spec, [spec.instance_uuid])
        return explain_host(self.pipeline, self.table, spec, row)

    def headroom(
        self,
        spec: RequestSpec,
        by: str = AVAILABILITY_ZONE,
        *,
        loses_a_host: bool = False,
        most: int = MOST_PLACED,
        progress: Progress = lambda what, done, about: None,
    ) -> Headroom:
        """How many more instances of the request fit, as many as placed one after the other would. Consumes nothing.

        `by`: metadata key of aggregates, such as a rack, by which the hosts are grouped. `loses_a_host`: also find
        the host whose loss costs most. `most`: counting stops there. `progress`: called now and then.
        """
        if spec.is_rebuild:
            raise BadInput("a rebuild takes nothing, so there is no end to how many fit", "leave the hint out")
        spec = self._preparation.complete(spec.changed(num_instances=1, instance_uuid=None))
        self._preparation.note_trust(spec, self.table)
        groups = (self._groups.current(group, []) for group in self._fleet.server_groups.values())
        group_of = {uuid: group.updated(group.members, ()) for group in groups for uuid in group.members}
        with self._trials() as trials:
            return count_headroom(
                trials,
                spec,
                by=by,
                most=most,
                loses_a_host=loses_a_host,
                group_of=group_of,
                prepare=self._preparation.complete,
                progress=progress,
            )

    def headroom_key(self, spec: RequestSpec) -> Hashable:
        """Equal for requests whose headroom is, as their flavors differ in names that no rule looks at; or None.

        None where that is not known, since a plugin is enabled.
        """
        return headroom_key(self.pipeline.rules, spec)

    @contextmanager
    def _trials(self) -> Iterator[Trials]:
        """A function that makes copies to try things out on; inside the block plugins see the latest of them."""
        table, groups, pipeline = self.table, self._groups, self.pipeline.fresh(IncrementalEngine)

        def begin() -> Trial:
            self.table = table.copy()
            self._groups = groups.on_copy(self.table)
            return Trial(self.table, self._groups, pipeline, random.Random(0), self._with_members)  # noqa: S311

        try:
            yield begin
        finally:
            self.table, self._groups = table, groups

    def profile(self, spec: RequestSpec) -> Profile:
        """How the time of such a request splits into stages. Consumes nothing."""
        spec = self._prepared(spec, [spec.instance_uuid])
        return profile(self.pipeline, self.table, spec, self._random, time.perf_counter_ns)

    def _remember(self, spec: RequestSpec, decision: Decision) -> None:
        for selection in decision.selections:
            row, placed = selection.row, selection.placed
            if placed is None:
                continue
            if spec.is_rebuild:  # the instance stays where it is, with what it has
                self.table.release(row, placed)
                continue
            if placed.image:
                self.table.note_image(row, placed)
            consumed = placed if self._tracks_builds else self.table.finish_build(row, placed)
            here = selection.instance_uuid, selection.host, selection.node
            self._placed.setdefault(here, []).append(_Placement(row, selection, consumed))
        if spec.instance_group:
            uuids = [each.instance_uuid for each in decision.selections if each.instance_uuid]
            self._groups.note(spec.instance_group, uuids, [each.host for each in decision.selections])

    def _prepared(self, spec: RequestSpec, uuids: Sequence[str | None]) -> RequestSpec:
        """The request with what flavor and image imply, and with the current members and hosts of its group."""
        spec = self._preparation.complete(spec)
        self._preparation.note_trust(spec, self.table)
        return self._with_members(spec, [each for each in uuids if each])

    def _with_members(self, spec: RequestSpec, own: Sequence[str]) -> RequestSpec:
        """The request with the current members and hosts of its group, to which the instances `own` belong now."""
        group = spec.instance_group
        if group is None:
            return spec
        group = self._groups.current(group, own)
        return self._closed_by_moves(group, own).applied_to(spec.with_group(group))

    def _closed_by_moves(self, group: ServerGroup, uuids: Sequence[str]) -> ClosedHosts:
        """Hosts that members of a strict group move away from, and that count as theirs until they have left.

        Only a fleet that was loaded with its records, as a snapshot is, knows of such moves.
        """
        if not self._sources:
            return ClosedHosts()
        sources = [each for member in group.members for each in self._sources.get(member, ())]
        own = [name for each in uuids for name in (each, move_of(each))]
        found = find_closed_sources(group, GroupPlaces([], sources), own, self.table) if sources else {}
        return ClosedHosts(found)

    @lazy
    def _sources(self) -> dict[str, list[tuple[str, str]]]:
        """Instance that moves -> the hosts that it leaves, each with the uuid of the migration."""
        found: dict[str, list[tuple[str, str]]] = {}
        for record, pairs in self._fleet.runs:
            for each in record.migrations:
                if each.instance is not None:
                    found.setdefault(each.instance, []).extend((host, each.uuid) for host, _ in pairs)
        return found

    def _find_group(self, uuid: str) -> ServerGroup | None:
        """A group of the fleet with its current members and hosts, for plugins; None where there is none."""
        wanted = canonical_uuid(uuid)
        known = (each for each in self._fleet.server_groups.values() if each.uuid == wanted)
        group = next(known, None)
        return self._groups.current(group, []) if group else None

    def _new_uuid(self) -> str:
        digits = f"{self._random.getrandbits(128):032x}"
        variant = "89ab"[int(digits[16], 16) & 3]
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def _with_facts(facts: Sections, options: Sections, files: Sequence[Path]) -> Sections:
    """The options of a caller, and the facts of a snapshot where the caller has none."""
    known = with_own_weighers(facts, read_options(files).fill(SchedulerOptions).weight_classes if files else ())
    return {name: {**known.get(name, {}), **options.get(name, {})} for name in (*known, *options)}
