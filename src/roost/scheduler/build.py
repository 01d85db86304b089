# SPDX-License-Identifier: Apache-2.0
"""From config files to a pipeline: reads every option, finds the enabled plugins and makes them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from roost.attestation import AttestationOptions
from roost.compat import PluginContext, PluginOptions, current_context, registered_options
from roost.compute.drivers.libvirt.options import LibvirtOptions, PciOptions
from roost.compute.options import ComputeOptions, FakeDriverOptions
from roost.conductor.move_options import ResizeOptions
from roost.conductor.options import ConductorOptions
from roost.config import Settings, read_settings
from roost.config.files import Key, Sections
from roost.config.settings import DEFAULT_ORIGIN
from roost.errors import PluginFailed, RoostError
from roost.filters.base import Filter
from roost.observe.options import HealthOptions, LogOptions
from roost.plugins import FILTERS, WEIGHERS, find_filters, find_weighers, places_of
from roost.rpc.options import RpcOptions
from roost.scheduler.choice import Choice
from roost.scheduler.cloud_options import NOVA, ApiDatabaseOptions, CellDatabaseOptions, CloudOptions, ShadowOptions
from roost.scheduler.incremental import IncrementalEngine
from roost.scheduler.options import (
    DEFAULT_FILTERS,
    NOVA_FILTERS,
    LiveMigrationOptions,
    SchedulerOptions,
    ServiceOptions,
)
from roost.scheduler.pipeline import MakeEngine, Pipeline
from roost.scheduler.prefilters import PrefilterOptions
from roost.store.options import DatabaseOptions
from roost.weighers.base import Weigher


def read_options(
    files: Sequence[Path] = (),
    fleet: Sections | None = None,
    explicit: Sections | None = None,
    dirs: Sequence[Path] = (),
) -> Settings:
    """The value of every option of the scheduler and its plugins. `dirs`: their *.conf come after the files."""

    def plugin_options(settings: Settings) -> Collection[Key]:
        return options_of_plugins(settings, files, fleet, explicit)

    return read_settings(option_owners(), files, fleet, explicit, dirs, names_own_plugins, plugin_options)


def names_own_plugins(settings: Settings) -> bool:
    """Whether the settings name classes that neither Roost nor nova ships: they may declare options, too."""
    own, service = settings.fill(SchedulerOptions), settings.fill(ServiceOptions)
    named = (
        *(own.available_filters or ()),
        *(own.enabled_filters or ()),
        *(own.weight_classes or ()),
        service.driver,
    )
    return any("." in each and not each.startswith(("roost.", "nova.scheduler.")) for each in named if each)


def options_of_plugins(
    settings: Settings, files: Sequence[Path], fleet: Sections | None = None, explicit: Sections | None = None
) -> Collection[Key]:
    """The options that plugins register when they are made. What else is wrong with one is raised when it is used."""
    context = PluginContext(PluginOptions(settings, files, fleet or {}, explicit or {}))
    with suppress(RoostError):
        build_pipeline(settings, places_of(files), context)
    return registered_options()


def option_owners() -> list[type]:
    """All classes that declare options."""
    plugins: Iterable[type[Filter] | type[Weigher]] = (*FILTERS, *WEIGHERS)
    return [
        SchedulerOptions,
        ServiceOptions,
        PrefilterOptions,
        AttestationOptions,
        DatabaseOptions,
        RpcOptions,
        LogOptions,
        HealthOptions,
        LiveMigrationOptions,
        CloudOptions,
        ShadowOptions,
        ApiDatabaseOptions,
        CellDatabaseOptions,
        ComputeOptions,
        ConductorOptions,
        ResizeOptions,
        FakeDriverOptions,
        LibvirtOptions,
        PciOptions,
        *(each.Options for each in plugins if each.Options is not None),
    ]


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
