# SPDX-License-Identifier: Apache-2.0
"""The scheduler as a service: `process.py` assembles it, `endpoints.py` lists methods, `manager.py` answers."""

from roost.scheduler.service.endpoints import METHODS
from roost.scheduler.service.process import BINARY, SchedulerService

__all__ = ["BINARY", "METHODS", "SchedulerService"]
