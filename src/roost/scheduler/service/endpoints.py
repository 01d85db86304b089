# SPDX-License-Identifier: Apache-2.0
"""The RPC methods of the scheduler, by major version of the message.

2.9 and 3.0 are Icehouse and Juno, 4.x is everything since. A server takes messages of its majors up to these minors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from roost.messages.interface import Method
from roost.scheduler.service.manager import SchedulerManager

_SINCE_KILO = ("select_destinations", "update_aggregates", "delete_aggregate")
_OF_INSTANCES = ("update_instance_info", "delete_instance_info", "sync_instance_info")
_JUNO = ("select_destinations", "run_instance", "prep_resize")
_ICEHOUSE = ("select_hosts", "live_migration", "show_host_resources", "get_backdoor_port", "create_volume")

_OWN = ("plan_destinations",)
"""Roost's own; nova's schedulers do not have it."""

NEWEST = "4.5"
VERSIONS: dict[str, tuple[str, ...]] = {
    NEWEST: _SINCE_KILO + _OF_INSTANCES + _OWN,
    "3.0": _JUNO,
    "2.9": _JUNO + _ICEHOUSE,
}
"""Newest version of each major -> its methods, the latest first."""
METHODS = frozenset(name for names in VERSIONS.values() for name in names)


@dataclass(frozen=True)
class SchedulerEndpoint:
    """The methods of one major version."""

    version: str
    methods: Mapping[str, Method]


def make_endpoints(manager: SchedulerManager, older: object | None) -> list[SchedulerEndpoint]:
    """One for each major version. `older`: has the methods of versions before 4; None: these are not served."""
    return [
        SchedulerEndpoint(version, {name: manager.measured(name, _find(name, manager, older)) for name in names})
        for version, names in VERSIONS.items()
        if older is not None or version == NEWEST
    ]


def _find(name: str, *owners: object) -> Method:
    owner = next(owner for owner in owners if hasattr(owner, name))
    method: Method = getattr(owner, name)
    return method
