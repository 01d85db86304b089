# SPDX-License-Identifier: Apache-2.0
"""All options of all services, read from config files: each service understands the nova.conf of the others."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from roost.api.options import ApiOptions
from roost.compute.libvirt.options import LibvirtOptions, PciOptions
from roost.compute.options import ComputeOptions, FakeDriverOptions
from roost.conductor.options import ConductorOptions, ResizeOptions
from roost.errors import RoostError
from roost.filters.base import Filter
from roost.messages.oslo import RpcOptions
from roost.options.files import Key, Sections
from roost.options.read import read_settings
from roost.options.settings import Settings
from roost.plugins.context import PluginContext
from roost.plugins.nova_conf import PluginOptions, registered_options
from roost.plugins.registry import FILTERS, WEIGHERS, places_of
from roost.records.options import DecisionOptions
from roost.scheduler.build import build_pipeline
from roost.scheduler.cloud_options import ApiDatabaseOptions, CellDatabaseOptions, CloudOptions, ShadowOptions
from roost.scheduler.options import LiveMigrationOptions, SchedulerOptions, ServiceOptions
from roost.scheduler.prefilters import PrefilterOptions
from roost.services.attestation import AttestationOptions
from roost.services.options import HealthOptions, LogOptions
from roost.store.engine import DatabaseOptions
from roost.weighers.base import Weigher


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
        DecisionOptions,
        ApiOptions,
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
