# SPDX-License-Identifier: Apache-2.0
"""Drivers: who chooses the hosts. `[scheduler] driver` names one, in any of nova's spellings."""

from roost.scheduler.drivers.base import Driver, Surroundings
from roost.scheduler.drivers.registry import find_driver

__all__ = ["Driver", "Surroundings", "find_driver"]
