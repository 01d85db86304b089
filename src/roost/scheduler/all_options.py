# SPDX-License-Identifier: Apache-2.0
"""All options of all services, read from config files: each service understands the nova.conf of the others."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from roost.errors import RoostError
from roost.filters.base import Filter
from roost.options.files import Key, Sections
from roost.options.read import read_settings
from roost.options.settings import Settings
from roost.plugins.context import PluginContext
from roost.plugins.nova_conf import PluginOptions, registered_options
from roost.plugins.registry import FILTERS, WEIGHERS, places_of
from roost.scheduler.build import build_pipeline
from roost.scheduler.options import SchedulerOptions, ServiceOptions
from roost.weighers.base import Weigher

OWNERS = (
    "roost.scheduler.options:SchedulerOptions",
    "roost.scheduler.options:ServiceOptions",
    "roost.scheduler.prefilters:PrefilterOptions",
    "roost.services.attestation:AttestationOptions",
    "roost.store.options:DatabaseOptions",
    "roost.messages.options:RpcOptions",
    "roost.services.options:LogOptions",
    "roost.services.options:HealthOptions",
    "roost.scheduler.options:LiveMigrationOptions",
    "roost.records.options:DecisionOptions",
    "roost.api.options:ApiOptions",
    "roost.scheduler.options:CloudOptions",
    "roost.scheduler.options:ShadowOptions",
    "roost.scheduler.options:ApiDatabaseOptions",
    "roost.scheduler.options:CellDatabaseOptions",
    "roost.compute.options:ComputeOptions",
    "roost.conductor.options:ConductorOptions",
    "roost.conductor.options:ResizeOptions",
    "roost.compute.options:FakeDriverOptions",
    "roost.compute.libvirt.options:LibvirtOptions",
    "roost.compute.libvirt.options:PciOptions",
)
"""Classes that declare options, by name: a service is loaded only where its options are read."""


def read_options(
    files: Sequence[Path] = (),
    fleet: Sections | None = None,
    explicit: Sections | None = None,
    dirs: Sequence[Path] = (),
) -> Settings:
    """The value of every option of all services and plugins. `dirs`: their *.conf come after the files."""

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
    return [*(_load(each) for each in OWNERS), *(each.Options for each in plugins if each.Options is not None)]


def _load(path: str) -> type:
    module, _, name = path.partition(":")
    found: type = getattr(import_module(module), name)
    return found
