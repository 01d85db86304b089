# SPDX-License-Identifier: Apache-2.0
"""The usual driver: every host is looked at, by filters and weighers."""

from __future__ import annotations

from roost.compat import PluginContext, PluginOptions, TableState
from roost.config import Settings
from roost.inventory import read_group
from roost.model import ServerGroup
from roost.scheduler.claiming import Chooser
from roost.scheduler.drivers.base import Driver, Surroundings
from roost.scheduler.options import build_pipeline
from roost.scheduler.pipeline import Pipeline
from roost.scheduler.preparation import Preparation


class FilterScheduler(Driver):
    """Filters and weighers over the fleet as it is now."""

    def __init__(self, surroundings: Surroundings) -> None:
        self.pipeline = _build(surroundings, surroundings.settings)
        super().__init__(surroundings)

    def preparation(self) -> Preparation:
        """NUMA and PCI of flavor and image, trust, and whether somebody keeps the policy of the group."""
        return Preparation(self.surroundings.settings, self.pipeline.plugin_names)

    def chooser(self) -> Chooser:
        """The pipeline: prefilter, capacity, filter, weigh, choose."""
        return self.pipeline

    def take_up(self, settings: Settings) -> None:
        """With plugins and options as the settings say; requests under way end with those before."""
        pipeline = _build(self.surroundings, settings)
        preparation = Preparation(settings, pipeline.plugin_names)
        super().take_up(settings)
        self.pipeline = self.scheduler.chooser = pipeline
        self.scheduler.preparation = preparation


def _build(surroundings: Surroundings, settings: Settings) -> Pipeline:
    """With people's own plugins, which see the options and the fleet through nova's names."""
    picture, engine = surroundings.picture, surroundings.engine

    def find_group(uuid: str) -> ServerGroup | None:
        group = read_group(engine, uuid)
        return group and group.updated(group.members, picture.table.hosts_of(group.members))

    world = PluginContext(PluginOptions(settings, surroundings.files), TableState(lambda: picture.table, find_group))
    return build_pipeline(settings, surroundings.places, world)
