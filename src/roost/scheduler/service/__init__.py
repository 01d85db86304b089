# SPDX-License-Identifier: Apache-2.0
"""The scheduler as a service: `process.py` assembles it, `endpoints.py` lists methods, `manager.py` answers.

`shadow_service.py` and `shadow_manager.py` take their place in shadow mode.
"""

from roost.scheduler.service.cloud import BackgroundTask, Cloud
from roost.scheduler.service.decision_keeping import DecisionKeeping
from roost.scheduler.service.endpoints import METHODS
from roost.scheduler.service.manager import SchedulerManager
from roost.scheduler.service.own_cloud import BINARY, OwnCloud
from roost.scheduler.service.process import SchedulerService
from roost.scheduler.service.shadow_manager import ShadowManager
from roost.scheduler.service.shadow_service import ShadowService

__all__ = [
    "BINARY",
    "METHODS",
    "BackgroundTask",
    "Cloud",
    "DecisionKeeping",
    "OwnCloud",
    "SchedulerManager",
    "SchedulerService",
    "ShadowManager",
    "ShadowService",
]
