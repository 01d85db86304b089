# SPDX-License-Identifier: Apache-2.0
"""Strategies for hypothesis that generate tables and requests. Plugin authors install hypothesis themselves.

`host_tables()` and `specs()` suit most filters and weighers; `tables_of(columns)` varies only chosen columns.
"""

from roost.testing.strategies.hosts import (
    ADDRESSES,
    COLUMNS,
    CPU_INFO,
    METADATA,
    METADATA_VALUES,
    RATIOS,
    SERVICES,
    TRIPLES,
    UUIDS,
    host_records,
    host_tables,
    metadata,
    rarely,
    tables_of,
)
from roost.testing.strategies.numa_pci import (
    DEVICES,
    NUMA_EXTRA_SPECS,
    PCI_REQUESTS,
    PROVIDERS,
    allocation_candidates,
    host_topologies,
    numa_specs,
    pci_pools,
)
from roost.testing.strategies.requests import (
    GROUPS,
    IMAGE_PROPERTIES,
    QUERIES,
    REFERENCES,
    ZONES,
    extra_specs,
    hints,
    requirements,
    specs,
)

__all__ = [
    "ADDRESSES",
    "COLUMNS",
    "CPU_INFO",
    "DEVICES",
    "GROUPS",
    "IMAGE_PROPERTIES",
    "METADATA",
    "METADATA_VALUES",
    "NUMA_EXTRA_SPECS",
    "PCI_REQUESTS",
    "PROVIDERS",
    "QUERIES",
    "RATIOS",
    "REFERENCES",
    "SERVICES",
    "TRIPLES",
    "UUIDS",
    "ZONES",
    "allocation_candidates",
    "extra_specs",
    "hints",
    "host_records",
    "host_tables",
    "host_topologies",
    "metadata",
    "numa_specs",
    "pci_pools",
    "rarely",
    "requirements",
    "specs",
    "tables_of",
]
