# SPDX-License-Identifier: Apache-2.0
"""The fleet as columns: `HostTable` (all hosts), `Hosts` (some rows), `HostView` (one row). Start at `table.py`."""

from roost.hosts.hosts import Hosts
from roost.hosts.instances import Instance, MigrationHolding
from roost.hosts.record import HostRecord, Inventory
from roost.hosts.table import HostTable
from roost.hosts.view import HostView

__all__ = ["HostRecord", "HostTable", "HostView", "Hosts", "Instance", "Inventory", "MigrationHolding"]
