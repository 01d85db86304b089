# SPDX-License-Identifier: Apache-2.0
"""Roost decides on which host a virtual machine runs, and says why.

from roost import Fleet, Flavor, RequestSpec, Scheduler

fleet = Fleet.load("fleet.yaml")
decision = Scheduler(fleet, seed=1).place(RequestSpec(flavor=Flavor(vcpus=2, memory_mb=2048)))
decision.selections[0].host
"""

from roost.errors import BadInput, NoValidHost, PluginFailed, RoostError
from roost.fleet import Fleet
from roost.library import Scheduler
from roost.model import Decision, Flavor, Image, RequestSpec, Selection, ServerGroup

__all__ = [
    "BadInput",
    "Decision",
    "Flavor",
    "Fleet",
    "Image",
    "NoValidHost",
    "PluginFailed",
    "RequestSpec",
    "RoostError",
    "Scheduler",
    "Selection",
    "ServerGroup",
]
__version__ = "0.1.0"
