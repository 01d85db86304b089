# SPDX-License-Identifier: Apache-2.0
"""The scheduler's replica of the fleet, kept up to date from the database. Start reading at `host_manager.py`."""

from roost.scheduler.replica.changed_nodes import ChangedNodes, NodeIndex
from roost.scheduler.replica.fleet_source import FleetReader, FleetSource
from roost.scheduler.replica.heartbeats import Heartbeat
from roost.scheduler.replica.host_manager import HostManager
from roost.scheduler.replica.ironic_host_manager import IronicHostManager, make_host_manager

__all__ = [
    "ChangedNodes",
    "FleetReader",
    "FleetSource",
    "Heartbeat",
    "HostManager",
    "IronicHostManager",
    "NodeIndex",
    "make_host_manager",
]
