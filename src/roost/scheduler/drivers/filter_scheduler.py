# SPDX-License-Identifier: Apache-2.0
"""The default driver: every host is looked at, by filters and weighers."""

from __future__ import annotations

from roost.model import ServerGroup
from roost.options.settings import Settings
from roost.plugins.context import PluginContext, TableState
from roost.plugins.nova_conf import PluginOptions
from roost.plugins.registry import places_of
from roost.scheduler.build import build_pipeline
from roost.scheduler.claiming import Chooser
from roost.scheduler.drivers.base import Driver
from roost.scheduler.pipeline import Pipeline
from roost.scheduler.preparation import Preparation


class FilterScheduler(Driver):
    """Filters and weighers over the fleet as it is now."""

    def chooser(self) -> Chooser:
        """The pipeline: prefilter, capacity, filter, weigh, choose, and consume in the replica."""
        return self.pipeline

    def preparation(self) -> Preparation:
        """NUMA cells and PCI devices of flavor and image, trust, and whether a filter enforces the group's policy."""
        return self._preparation

    def _use(self, settings: Settings) -> None:
        """Build the pipeline of these settings; requests in flight end with the previous one."""
        pipeline = self._build(settings)
        self._preparation = Preparation(settings, pipeline.plugin_names)
        self.pipeline = pipeline
        super()._use(settings)

    def _build(self, settings: Settings) -> Pipeline:
        """The pipeline of these settings; its plugins see options and fleet through nova's names."""
        state = TableState(lambda: self.replica.table, self._group_with_hosts)
        context = PluginContext(PluginOptions(settings, self.files), state)
        return build_pipeline(settings, places_of(self.files), context)

    def _group_with_hosts(self, uuid: str) -> ServerGroup | None:
        group = self.find_group(uuid)
        return group and group.updated(group.members, self.replica.table.hosts_of(group.members))
