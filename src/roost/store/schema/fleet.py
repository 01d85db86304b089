# SPDX-License-Identifier: Apache-2.0
"""Tables of the fleet - services, hosts, aggregates - and of the ledger: who has what of them."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Integer,
    PrimaryKeyConstraint,
    String,
    UniqueConstraint,
    false,
)

from roost.store.columns import (
    LONG_TEXT,
    NAME,
    ROW_NUMBER,
    UUID,
    JsonText,
    UtcTime,
    not_null,
    parent_id,
    table,
    times,
)

services = table(
    "services",
    Column("id", ROW_NUMBER, primary_key=True),
    Column("uuid", UUID, nullable=False, unique=True),
    Column("host", NAME, nullable=False),
    Column("binary", NAME, nullable=False),
    Column("topic", NAME),
    Column("version", Integer, **not_null()),
    Column("report_count", BigInteger, **not_null()),
    Column("disabled", Boolean, nullable=False, server_default=false()),
    Column("disabled_reason", LONG_TEXT),
    Column("forced_down", Boolean, nullable=False, server_default=false()),
    Column("is_static", Boolean, nullable=False, server_default=false(), comment="no agent: counts as up"),
    Column("last_seen_up", UtcTime, index=True),
    *times(),
    UniqueConstraint("host", "binary"),
)

heartbeat_probes = table(
    "heartbeat_probes",
    Column("id", BigInteger, primary_key=True, autoincrement=False, comment="1: there is one row"),
    Column("probed_at", UtcTime, nullable=False, comment="when it last took a write"),
    Column("stopped_at", UtcTime, comment="the last probe before the last outage"),
    Column("resumed_at", UtcTime, comment="the first probe after it"),
)

compute_nodes = table(
    "compute_nodes",
    Column("id", ROW_NUMBER, primary_key=True),
    Column("uuid", UUID, nullable=False, unique=True),
    Column("host", NAME, nullable=False),
    Column("hypervisor_hostname", NAME, nullable=False),
    Column("cell", NAME, nullable=False, server_default="cell1"),
    Column("vcpus", BigInteger, **not_null()),
    Column("memory_mb", BigInteger, **not_null()),
    Column("local_gb", BigInteger, **not_null()),
    Column("vcpus_used", BigInteger, **not_null()),
    Column("memory_mb_used", BigInteger, **not_null()),
    Column("local_gb_used", BigInteger, **not_null()),
    Column("free_ram_mb", BigInteger),
    Column("free_disk_gb", BigInteger, comment="NULL: the node has not reported yet"),
    Column("disk_available_least", BigInteger),
    Column("current_workload", BigInteger),
    Column("running_vms", BigInteger),
    Column("cpu_allocation_ratio", Double),
    Column("ram_allocation_ratio", Double),
    Column("disk_allocation_ratio", Double),
    Column("hypervisor_type", NAME),
    Column("hypervisor_version", BigInteger, **not_null()),
    Column("host_ip", String(45)),
    Column("cpu_info", JsonText),
    Column("supported_instances", JsonText),
    Column("stats", JsonText),
    Column("metrics", JsonText),
    Column("numa_topology", JsonText),
    Column("pci_stats", JsonText),
    *times(),
    Column("attributes", JsonText, comment="what a fleet file says and nova has no column for"),
    Column("base_numa_topology", JsonText, comment="numa_topology without what guest_allocations hold"),
    Column("base_pci_stats", JsonText, comment="pci_stats without what guest_allocations hold"),
    UniqueConstraint("host", "hypervisor_hostname"),
)

node_traits = table(
    "node_traits",
    parent_id("compute_nodes", "node_id"),
    Column("trait", NAME, nullable=False),
    PrimaryKeyConstraint("node_id", "trait"),
)

aggregates = table(
    "aggregates",
    Column("id", ROW_NUMBER, primary_key=True),
    Column("uuid", UUID, nullable=False, unique=True),
    Column("name", NAME, nullable=False, unique=True),
    *times(),
)

aggregate_hosts = table(
    "aggregate_hosts",
    parent_id("aggregates", "aggregate_id"),
    Column("host", NAME, nullable=False, index=True),
    PrimaryKeyConstraint("aggregate_id", "host"),
)

aggregate_metadata = table(
    "aggregate_metadata",
    parent_id("aggregates", "aggregate_id"),
    Column("key", NAME, nullable=False),
    Column("value", LONG_TEXT, nullable=False),
    PrimaryKeyConstraint("aggregate_id", "key"),
)

inventories = table(
    "inventories",
    parent_id("compute_nodes", "node_id"),
    Column("resource_class", NAME, nullable=False),
    Column("total", BigInteger, nullable=False),
    Column("reserved", BigInteger, **not_null()),
    Column("allocation_ratio", Double, **not_null(1)),
    Column("min_unit", BigInteger, **not_null(1)),
    Column("max_unit", BigInteger, comment="NULL: the total"),
    Column("step_size", BigInteger, **not_null(1)),
    Column("used", BigInteger, **not_null(comment="the sum of the allocations")),
    PrimaryKeyConstraint("node_id", "resource_class"),
    CheckConstraint("used >= 0", name="used"),
)

consumers = table(
    "consumers",
    Column("uuid", UUID, primary_key=True),
    Column("kind", String(32), nullable=False, server_default="instance", comment="instance or migration"),
    Column("project_id", NAME),
    Column("user_id", NAME),
    *times(),
    Column("details", JsonText, comment="flavor and image of an instance, as far as rules ask"),
)

allocations = table(
    "allocations",
    Column("consumer_uuid", UUID, ForeignKey("consumers.uuid", ondelete="CASCADE"), nullable=False),
    # No cascade: a node with allocations must not be deleted by mistake.
    Column("node_id", ROW_NUMBER, ForeignKey("compute_nodes.id"), nullable=False, index=True),
    Column("resource_class", NAME, nullable=False),
    Column("used", BigInteger, nullable=False),
    PrimaryKeyConstraint("consumer_uuid", "node_id", "resource_class"),
    CheckConstraint("used > 0", name="used"),
)

guest_allocations = table(
    "guest_allocations",
    # No cascade: what is booked must not disappear without an update of the node's columns.
    Column("consumer_uuid", UUID, ForeignKey("consumers.uuid"), nullable=False),
    Column("node_id", ROW_NUMBER, ForeignKey("compute_nodes.id"), nullable=False, index=True),
    Column("guest", JsonText, nullable=False, comment="NUMA cells with pinned CPUs and pages, and PCI devices"),
    PrimaryKeyConstraint("consumer_uuid", "node_id"),
)
