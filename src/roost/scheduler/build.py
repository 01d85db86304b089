# SPDX-License-Identifier: Apache-2.0
"""From options to a pipeline: finds the enabled plugins and makes them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from roost.errors import PluginFailed, RoostError
from roost.options.settings import DEFAULT_ORIGIN, Settings
from roost.plugins.context import PluginContext, current_context
from roost.plugins.nova_conf import PluginOptions
from roost.plugins.registry import FILTERS, WEIGHERS, find_filters, find_weighers
from roost.scheduler.choice import Choice
from roost.scheduler.cloud_options import NOVA, CloudOptions
from roost.scheduler.incremental.engine import IncrementalEngine
from roost.scheduler.options import (
    DEFAULT_FILTERS,
    NOVA_FILTERS,
    SchedulerOptions,
)
from roost.scheduler.pipeline import MakeEngine, Pipeline
from roost.scheduler.prefilters import PrefilterOptions


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
