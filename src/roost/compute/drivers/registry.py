# SPDX-License-Identifier: Apache-2.0
"""Which hypervisor the options name: `fake` or `libvirt`, each behind the interface of `base.py`."""

from __future__ import annotations

import importlib
import random
from collections.abc import Sequence
from pathlib import Path

from roost.clock import Clock
from roost.compute.drivers.base import ComputeDriver
from roost.compute.drivers.fake import FakeDriver, FakeHypervisors
from roost.compute.options import LIBVIRT, ComputeOptions, FakeDriverOptions
from roost.errors import BadInput
from roost.options.settings import Settings


def make_drivers(
    settings: Settings,
    host_names: Sequence[str],
    hypervisors: FakeHypervisors | None = None,
    *,
    clock: Clock,
    randomness: random.Random,
) -> dict[str, ComputeDriver]:
    """Host -> its hypervisor, of the kind that `compute_driver` names. OptionError for a kind that Roost has not.

    `hypervisors`: those that fake hosts share; None: of [roost_fake] state_directory. libvirt has one host in a
    process: BadInput for several.
    """
    if settings.fill(ComputeOptions).driver_name == LIBVIRT:
        return _make_libvirt_driver(settings, host_names)
    options = settings.fill(FakeDriverOptions)
    if hypervisors is None:
        hypervisors = FakeHypervisors(Path(options.state_directory) if options.state_directory else None)
    return {host: FakeDriver(host, hypervisors, options, clock, randomness) for host in host_names}


def _make_libvirt_driver(settings: Settings, host_names: Sequence[str]) -> dict[str, ComputeDriver]:
    if len(host_names) != 1:
        raise BadInput(f"libvirt is one host, not {len(host_names)}", "start one agent for each libvirt daemon")
    driver = importlib.import_module("roost.compute.libvirt.driver")  # loaded only where it is used
    options = importlib.import_module("roost.compute.libvirt.options")
    return {
        host_names[0]: driver.LibvirtDriver(settings.fill(options.LibvirtOptions), settings.fill(options.PciOptions))
    }
