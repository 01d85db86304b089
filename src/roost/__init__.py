# SPDX-License-Identifier: Apache-2.0
"""Roost decides on which host a virtual machine runs, and says why.

from roost import Fleet, Flavor, RequestSpec, Scheduler

fleet = Fleet.load("fleet.yaml")
decision = Scheduler(fleet, seed=1).place(RequestSpec(flavor=Flavor(vcpus=2, memory_mb=2048)))
decision.selections[0].host
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roost.errors import BadInput, NoValidHost, PluginFailed, RoostError
    from roost.library import Scheduler
    from roost.model import Decision, Flavor, Image, RequestSpec, Selection, ServerGroup
    from roost.sources.fleet_file import Fleet

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

_MODULES = {
    **dict.fromkeys(("BadInput", "NoValidHost", "PluginFailed", "RoostError"), "roost.errors"),
    **dict.fromkeys(("Decision", "Flavor", "Image", "RequestSpec", "Selection", "ServerGroup"), "roost.model"),
    "Fleet": "roost.sources.fleet_file",
    "Scheduler": "roost.library",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used: the program `roost` must handle Ctrl-C before numpy is loaded."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return found
