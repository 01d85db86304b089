# SPDX-License-Identifier: Apache-2.0
"""Options that nova has in the sections Roost shares with it, and that change nothing here.

A nova.conf that sets one of them is read without complaint; any other unknown name there is an error.
"""

STRICT = ("filter_scheduler", "scheduler", "metrics", "trusted_computing")
"""Sections that are the scheduler's own: a name nobody knows is a slip of the pen there."""

UNUSED: dict[str, frozenset[str]] = {
    "filter_scheduler": frozenset(
        {
            "pci_in_placement",
        }
    ),
    "scheduler": frozenset(
        {
            "discover_hosts_in_cells_interval",
            "driver",
            "max_placement_results",
            "periodic_task_interval",
            "query_placement_for_routed_network_aggregates",
            "workers",
        }
    ),
}
