# SPDX-License-Identifier: Apache-2.0
"""The default driver: every host is looked at, by filters and weighers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from roost.compat import PluginContext, PluginOptions, TableState
from roost.config import Settings
from roost.model import ServerGroup
from roost.plugins import places_of
from roost.scheduler.build import build_pipeline
from roost.scheduler.claiming import Chooser, Replica
from roost.scheduler.drivers.base import Driver, FindGroup, ReadHostsUp
from roost.scheduler.pipeline import Pipeline
from roost.scheduler.preparation import Preparation


class FilterScheduler(Driver):
    """Filters and weighers over the fleet as it is now."""

    def __init__(
        self,
        settings: Settings,
        replica: Replica,
        files: Sequence[Path] = (),
        find_group: FindGroup = lambda uuid: None,
        read_hosts_up: ReadHostsUp = lambda topic, seconds_until_down: [],
    ) -> None:
        super().__init__(settings, replica, files, find_group, read_hosts_up)
        self.pipeline = self._build(settings)
        self._preparation = Preparation(settings, self.pipeline.plugin_names)

    def chooser(self) -> Chooser:
        """The pipeline: prefilter, capacity, filter, weigh, choose, and consume in the replica."""
        return self.pipeline

    def preparation(self) -> Preparation:
        """NUMA cells and PCI devices of flavor and image, trust, and whether a filter enforces the group's policy."""
        return self._preparation

    def reload(self, settings: Settings) -> None:
        """Build the pipeline anew; requests in flight end with the one before."""
        pipeline = self._build(settings)
        self._preparation = Preparation(settings, pipeline.plugin_names)
        self.pipeline = pipeline
        super().reload(settings)

    def _build(self, settings: Settings) -> Pipeline:
        """The pipeline of these settings; its plugins see options and fleet through nova's names."""
        state = TableState(lambda: self.replica.table, self._group_with_hosts)
        context = PluginContext(PluginOptions(settings, self.files), state)
        return build_pipeline(settings, places_of(self.files), context)

    def _group_with_hosts(self, uuid: str) -> ServerGroup | None:
        group = self.find_group(uuid)
        return group and group.updated(group.members, self.replica.table.hosts_of(group.members))
