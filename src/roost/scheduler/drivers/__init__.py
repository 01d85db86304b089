# SPDX-License-Identifier: Apache-2.0
"""Drivers choose the hosts. `[scheduler] driver` names one, in any of nova's spellings."""

from roost.scheduler.drivers.base import Driver
from roost.scheduler.drivers.registry import find_driver

__all__ = ["Driver", "find_driver"]
