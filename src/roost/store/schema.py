# SPDX-License-Identifier: Apache-2.0
"""The tables. Names are nova's where nova has such a table or column; units are in the names.

A change here needs a revision in `revisions/`; a test compares schema and revisions.

Invariants that constraints of the database enforce, however many schedulers there are:

- a slot of an anti-affinity group on a host has one owner (`server_group_slots`); there are as many slots per host as
  the group's `max_server_per_host`;
- an affinity group is bound to one host (`server_group_hosts`);
- a consumer has one allocation of a resource class of a node (`allocations`), so a repeated claim cannot count twice.

A consumer is an instance, a migration (which has its instance's allocation on the source during a move) or
`unlisted`: use that an imported node reported and that no listed instance accounts for.

A transaction that changes what schedulers have in their replicas also inserts into `changes`: docs/adr/0007.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    UniqueConstraint,
    false,
    text,
    true,
)
from sqlalchemy.schema import SchemaItem

from roost.store.columns import LONG_TEXT, NAME, ROW_NUMBER, UUID, CompressedJson, JsonText, UtcTime

# Every constraint has the same name on all databases, so that a revision can change it.
NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}
MARIADB_TABLE: dict[str, Any] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_nopad_bin",
}
"""Options of tables on MariaDB: by default it ignores case and trailing spaces when it compares texts."""

metadata = MetaData(naming_convention=NAMING)


def _table(name: str, *parts: SchemaItem, **settings: Any) -> Table:
    return Table(name, metadata, *parts, **MARIADB_TABLE, **settings)


def _not_null(default: int = 0, **settings: Any) -> Any:
    """Keyword arguments of a numeric column that is NOT NULL and has a default."""
    return {"nullable": False, "server_default": text(str(default)), **settings}


def _times() -> tuple[Column[Any], Column[Any]]:
    return Column("created_at", UtcTime), Column("updated_at", UtcTime)


def _parent_id(parent: str, column: str) -> Column[Any]:
    """A foreign key to the id of another table; rows are deleted with the row they belong to."""
    return Column(column, ROW_NUMBER, ForeignKey(f"{parent}.id", ondelete="CASCADE"), nullable=False)


# --- the fleet ---------------------------------------------------------------------------------------

services = _table(
    "services",
    Column("id", ROW_NUMBER, primary_key=True),
    Column("uuid", UUID, nullable=False, unique=True),
    Column("host", NAME, nullable=False),
    Column("binary", NAME, nullable=False),
    Column("topic", NAME),
    Column("version", Integer, **_not_null()),
    Column("report_count", BigInteger, **_not_null()),
    Column("disabled", Boolean, nullable=False, server_default=false()),
    Column("disabled_reason", LONG_TEXT),
    Column("forced_down", Boolean, nullable=False, server_default=false()),
    Column("is_static", Boolean, nullable=False, server_default=false(), comment="no agent: counts as up"),
    Column("last_seen_up", UtcTime, index=True),
    *_times(),
    UniqueConstraint("host", "binary"),
)

heartbeat_probes = _table(
    "heartbeat_probes",
    Column("id", BigInteger, primary_key=True, autoincrement=False, comment="1: there is one row"),
    Column("probed_at", UtcTime, nullable=False, comment="when it last took a write"),
    Column("stopped_at", UtcTime, comment="the last probe before the last outage"),
    Column("resumed_at", UtcTime, comment="the first probe after it"),
)

compute_nodes = _table(
    "compute_nodes",
    Column("id", ROW_NUMBER, primary_key=True),
    Column("uuid", UUID, nullable=False, unique=True),
    Column("host", NAME, nullable=False),
    Column("hypervisor_hostname", NAME, nullable=False),
    Column("cell", NAME, nullable=False, server_default="cell1"),
    Column("vcpus", BigInteger, **_not_null()),
    Column("memory_mb", BigInteger, **_not_null()),
    Column("local_gb", BigInteger, **_not_null()),
    Column("vcpus_used", BigInteger, **_not_null()),
    Column("memory_mb_used", BigInteger, **_not_null()),
    Column("local_gb_used", BigInteger, **_not_null()),
    Column("free_ram_mb", BigInteger),
    Column("free_disk_gb", BigInteger, comment="NULL: the node has not reported yet"),
    Column("disk_available_least", BigInteger),
    Column("current_workload", BigInteger),
    Column("running_vms", BigInteger),
    Column("cpu_allocation_ratio", Double),
    Column("ram_allocation_ratio", Double),
    Column("disk_allocation_ratio", Double),
    Column("hypervisor_type", NAME),
    Column("hypervisor_version", BigInteger, **_not_null()),
    Column("host_ip", String(45)),
    Column("cpu_info", JsonText),
    Column("supported_instances", JsonText),
    Column("stats", JsonText),
    Column("metrics", JsonText),
    Column("numa_topology", JsonText),
    Column("pci_stats", JsonText),
    *_times(),
    Column("attributes", JsonText, comment="what a fleet file says and nova has no column for"),
    Column("base_numa_topology", JsonText, comment="numa_topology without what guest_allocations hold"),
    Column("base_pci_stats", JsonText, comment="pci_stats without what guest_allocations hold"),
    UniqueConstraint("host", "hypervisor_hostname"),
)

node_traits = _table(
    "node_traits",
    _parent_id("compute_nodes", "node_id"),
    Column("trait", NAME, nullable=False),
    PrimaryKeyConstraint("node_id", "trait"),
)

aggregates = _table(
    "aggregates",
    Column("id", ROW_NUMBER, primary_key=True),
    Column("uuid", UUID, nullable=False, unique=True),
    Column("name", NAME, nullable=False, unique=True),
    *_times(),
)

aggregate_hosts = _table(
    "aggregate_hosts",
    _parent_id("aggregates", "aggregate_id"),
    Column("host", NAME, nullable=False, index=True),
    PrimaryKeyConstraint("aggregate_id", "host"),
)

aggregate_metadata = _table(
    "aggregate_metadata",
    _parent_id("aggregates", "aggregate_id"),
    Column("key", NAME, nullable=False),
    Column("value", LONG_TEXT, nullable=False),
    PrimaryKeyConstraint("aggregate_id", "key"),
)

# --- the ledger --------------------------------------------------------------------------------------

inventories = _table(
    "inventories",
    _parent_id("compute_nodes", "node_id"),
    Column("resource_class", NAME, nullable=False),
    Column("total", BigInteger, nullable=False),
    Column("reserved", BigInteger, **_not_null()),
    Column("allocation_ratio", Double, **_not_null(1)),
    Column("min_unit", BigInteger, **_not_null(1)),
    Column("max_unit", BigInteger, comment="NULL: the total"),
    Column("step_size", BigInteger, **_not_null(1)),
    Column("used", BigInteger, **_not_null(comment="the sum of the allocations")),
    PrimaryKeyConstraint("node_id", "resource_class"),
    CheckConstraint("used >= 0", name="used"),
)

consumers = _table(
    "consumers",
    Column("uuid", UUID, primary_key=True),
    Column("kind", String(32), nullable=False, server_default="instance", comment="instance or migration"),
    Column("project_id", NAME),
    Column("user_id", NAME),
    *_times(),
    Column("details", JsonText, comment="flavor and image of an instance, as far as rules ask"),
)

allocations = _table(
    "allocations",
    Column("consumer_uuid", UUID, ForeignKey("consumers.uuid", ondelete="CASCADE"), nullable=False),
    # No cascade: a node with allocations must not be deleted by mistake.
    Column("node_id", ROW_NUMBER, ForeignKey("compute_nodes.id"), nullable=False, index=True),
    Column("resource_class", NAME, nullable=False),
    Column("used", BigInteger, nullable=False),
    PrimaryKeyConstraint("consumer_uuid", "node_id", "resource_class"),
    CheckConstraint("used > 0", name="used"),
)

guest_allocations = _table(
    "guest_allocations",
    # No cascade: what is booked must not disappear without an update of the node's columns.
    Column("consumer_uuid", UUID, ForeignKey("consumers.uuid"), nullable=False),
    Column("node_id", ROW_NUMBER, ForeignKey("compute_nodes.id"), nullable=False, index=True),
    Column("guest", JsonText, nullable=False, comment="NUMA cells with pinned CPUs and pages, and PCI devices"),
    PrimaryKeyConstraint("consumer_uuid", "node_id"),
)

# --- servers and their groups ------------------------------------------------------------------------

servers = _table(
    "servers",
    Column("uuid", UUID, primary_key=True),
    Column("name", NAME, nullable=False),
    Column("project_id", NAME, index=True),
    Column("user_id", NAME),
    Column("host", NAME),
    Column("node", NAME),
    Column("availability_zone", NAME),
    Column("vm_state", String(64)),
    Column("task_state", String(64)),
    Column("image_id", NAME),
    Column("flavor", JsonText, comment="as it was when the server was made or resized"),
    Column("request_spec", JsonText),
    *_times(),
    Column("generation", BigInteger, **_not_null(comment="counts the changes of the life cycle: a fencing token")),
    Column("power_state", String(32)),
    Column("task_data", JsonText, comment="what the running task needs: target, alternates, failed attempts"),
    Column("launched_at", UtcTime),
    Column("deleted_at", UtcTime),
    Column("description", LONG_TEXT),
    Column("metadata", JsonText, comment="what a client attached; no rule reads it"),
    Column("reservation_id", String(64), index=True, comment="of the request that made it"),
    Column("launch_index", Integer, comment="which of the servers of its request, counted from 0"),
    Column("hostname", NAME, comment="by which a guest is to know itself"),
    Column("access_ip_v4", String(15), comment="an address that a client noted, in its shortest form"),
    Column("access_ip_v6", String(39)),
    Column("disk_config", String(8), comment="AUTO or MANUAL; NULL: nothing was said"),
    Index(None, "host", "node"),
    Index(None, "task_state"),
)

server_faults = _table(
    "server_faults",
    Column("id", ROW_NUMBER, primary_key=True),
    Column("server_uuid", UUID, ForeignKey("servers.uuid", ondelete="CASCADE"), nullable=False, index=True),
    Column("code", Integer, nullable=False),
    Column("message", LONG_TEXT, nullable=False),
    Column("details", LONG_TEXT, comment="for admins: the decision in one line, the reasons of failed attempts"),
    Column("host", NAME),
    Column("created_at", UtcTime, nullable=False, index=True),
)

guest_removals = _table(
    "guest_removals",
    Column("server_uuid", UUID, ForeignKey("servers.uuid", ondelete="CASCADE"), nullable=False),
    Column("host", NAME, nullable=False, index=True),
    Column("generation", BigInteger, nullable=False, comment="of the server when it left the host"),
    Column("attempts", Integer, nullable=False, comment="how often its agent was told again"),
    Column("send_after", UtcTime, nullable=False, index=True, comment="when its agent is told again"),
    Column("created_at", UtcTime, nullable=False),
    PrimaryKeyConstraint("server_uuid", "host"),
)

server_groups = _table(
    "server_groups",
    Column("id", ROW_NUMBER, primary_key=True),
    Column("uuid", UUID, nullable=False, unique=True),
    Column("name", NAME, nullable=False),
    Column("project_id", NAME, index=True),
    Column("user_id", NAME),
    Column("policy", String(64)),
    Column("max_server_per_host", BigInteger),
    *_times(),
)

server_group_members = _table(
    "server_group_members",
    _parent_id("server_groups", "group_id"),
    Column("server_uuid", UUID, nullable=False, index=True),
    PrimaryKeyConstraint("group_id", "server_uuid"),
)

server_group_slots = _table(
    "server_group_slots",
    _parent_id("server_groups", "group_id"),
    Column("host", NAME, nullable=False),
    Column("slot", Integer, nullable=False, autoincrement=False, comment="0 to max_server_per_host - 1"),
    Column("consumer_uuid", UUID, ForeignKey("consumers.uuid", ondelete="CASCADE"), nullable=False, index=True),
    PrimaryKeyConstraint("group_id", "host", "slot"),
    CheckConstraint("slot >= 0", name="slot"),
)

server_group_hosts = _table(
    "server_group_hosts",
    _parent_id("server_groups", "group_id"),
    Column("host", NAME, nullable=False),
    PrimaryKeyConstraint("group_id"),
)

migrations = _table(
    "migrations",
    Column("id", ROW_NUMBER, primary_key=True),
    Column("uuid", UUID, nullable=False, unique=True),
    Column("server_uuid", UUID, nullable=False, index=True),
    Column("migration_type", String(32), nullable=False),
    Column("status", String(64), nullable=False, index=True),
    Column("source_compute", NAME),
    Column("source_node", NAME),
    Column("dest_compute", NAME),
    Column("dest_node", NAME),
    Column("old_flavor", JsonText),
    Column("new_flavor", JsonText),
    *_times(),
    Index(None, "updated_at"),
)

# --- flavors and images ------------------------------------------------------------------------------

flavors = _table(
    "flavors",
    Column("id", ROW_NUMBER, primary_key=True),
    Column("flavorid", NAME, nullable=False, unique=True),
    Column("name", NAME, nullable=False, unique=True),
    Column("vcpus", BigInteger, nullable=False),
    Column("memory_mb", BigInteger, nullable=False),
    Column("root_gb", BigInteger, **_not_null()),
    Column("ephemeral_gb", BigInteger, **_not_null()),
    Column("swap", BigInteger, **_not_null(comment="MiB, nova's unit")),
    Column("is_public", Boolean, nullable=False, server_default=true()),
    Column("disabled", Boolean, nullable=False, server_default=false()),
    *_times(),
    Column("description", LONG_TEXT),
    Column("rxtx_factor", Double, **_not_null(1)),
)

flavor_extra_specs = _table(
    "flavor_extra_specs",
    _parent_id("flavors", "flavor_id"),
    Column("key", NAME, nullable=False),
    Column("value", LONG_TEXT, nullable=False),
    PrimaryKeyConstraint("flavor_id", "key"),
)

images = _table(
    "images",
    Column("id", NAME, primary_key=True),
    Column("name", NAME, nullable=False, index=True),
    Column("properties", JsonText),
    Column("disk_format", NAME),
    Column("container_format", NAME),
    Column("status", NAME),
    Column("min_ram", BigInteger, **_not_null(comment="MiB")),
    Column("min_disk", BigInteger, **_not_null(comment="GiB")),
    Column("size", BigInteger, comment="bytes"),
    *_times(),
    Column("owner", NAME, comment="its project; NULL: an administrator's"),
    Column("visibility", String(16), nullable=False, server_default="public"),
)

# --- users and what they may do ----------------------------------------------------------------------

projects = _table(
    "projects",
    Column("id", UUID, primary_key=True),
    Column("name", NAME, nullable=False, unique=True),
    Column("enabled", Boolean, nullable=False, server_default=true()),
    Column("created_at", UtcTime),
)

users = _table(
    "users",
    Column("id", UUID, primary_key=True),
    Column("name", NAME, nullable=False, unique=True),
    Column("password_hash", LONG_TEXT, comment="scrypt with its parameters and salt; NULL: no password"),
    Column("enabled", Boolean, nullable=False, server_default=true()),
    Column("created_at", UtcTime),
)

role_assignments = _table(
    "role_assignments",
    Column("user_id", UUID, ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    Column("target_id", UUID, nullable=False, comment="a project's id, or 'system'"),
    Column("role", String(32), nullable=False, comment="admin, member or reader"),
    PrimaryKeyConstraint("user_id", "target_id", "role"),
)

application_credentials = _table(
    "application_credentials",
    Column("id", UUID, primary_key=True),
    Column("user_id", UUID, ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    Column("project_id", UUID, ForeignKey("projects.id", ondelete="CASCADE"), nullable=False),
    Column("name", NAME, nullable=False),
    Column("secret_digest", String(64), nullable=False, comment="SHA-256 of a random secret"),
    Column("roles", JsonText, nullable=False),
    Column("expires_at", UtcTime),
    Column("created_at", UtcTime),
    UniqueConstraint("user_id", "name"),
)

tokens = _table(
    "tokens",
    Column("digest", String(64), primary_key=True, comment="SHA-256 of the token"),
    Column("user_id", UUID, ForeignKey("users.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("target_id", UUID, nullable=False, comment="a project's id, or 'system'"),
    Column("roles", JsonText, nullable=False),
    Column("method", String(32), nullable=False, comment="password, token or application_credential"),
    Column("description", LONG_TEXT),
    Column("expires_at", UtcTime, nullable=False, index=True),
    Column("created_at", UtcTime, nullable=False),
    Column(
        "application_credential_id",
        UUID,
        ForeignKey("application_credentials.id", ondelete="CASCADE"),
        index=True,
        comment="with which it was issued; it goes with it",
    ),
)

# --- history -----------------------------------------------------------------------------------------

decisions = _table(
    "decisions",
    Column("id", ROW_NUMBER, primary_key=True),
    Column("request_id", NAME, index=True),
    Column("project_id", NAME),
    Column("hosts", BigInteger, nullable=False, comment="looked at"),
    Column("wanted", BigInteger, nullable=False, comment="instances asked for"),
    Column("is_placed", Boolean, nullable=False),
    Column("summary", LONG_TEXT, nullable=False),
    Column("record", CompressedJson, nullable=False, comment="the Decision as JSON"),
    Column("created_at", UtcTime, nullable=False, index=True),
    Column("run_uuid", UUID, comment="the scheduler that decided, in scheduler_runs"),
    Column("number", BigInteger, comment="counts the decisions of that scheduler"),
    Column("position", BigInteger, comment="in table_changes: the state that was decided from"),
    Index("uq_decisions_run_uuid_number", "run_uuid", "number", unique=True),
)

decision_servers = _table(
    "decision_servers",
    Column("server_uuid", UUID, nullable=False),
    Column("run_uuid", UUID, nullable=False),
    Column("number", BigInteger, nullable=False, autoincrement=False),
    PrimaryKeyConstraint("server_uuid", "run_uuid", "number"),
    Index(None, "run_uuid", "number"),
)

scheduler_runs = _table(
    "scheduler_runs",
    Column("uuid", UUID, primary_key=True),
    Column("host", NAME, nullable=False),
    Column("options", JsonText, nullable=False, comment="options that decide, without secrets"),
    Column("created_at", UtcTime, nullable=False),
)

table_checkpoints = _table(
    "table_checkpoints",
    Column("run_uuid", UUID, nullable=False),
    Column("position", BigInteger, nullable=False, autoincrement=False, comment="changes that it includes"),
    Column("part", Integer, nullable=False, autoincrement=False),
    Column("payload", LONG_TEXT, nullable=False, comment="a part of the compressed table of hosts"),
    Column("created_at", UtcTime, nullable=False, index=True),
    PrimaryKeyConstraint("run_uuid", "position", "part"),
)

table_changes = _table(
    "table_changes",
    Column("run_uuid", UUID, nullable=False),
    Column("first", BigInteger, nullable=False, autoincrement=False, comment="position of the first change"),
    Column("last", BigInteger, nullable=False, comment="position of the last change"),
    Column("payload", CompressedJson, nullable=False),
    Column("created_at", UtcTime, nullable=False, index=True),
    PrimaryKeyConstraint("run_uuid", "first"),
)

changes = _table(
    "changes",
    Column("number", ROW_NUMBER, primary_key=True, comment="counts up; visible in any order"),
    Column("subject", String(64), nullable=False, comment="table that changed"),
    Column("subject_key", NAME, nullable=False, comment="key of the row that changed, as text"),
    # No default: a writer of an older version, which knows nothing of guest_allocations, must fail.
    Column("token", BigInteger, nullable=False, comment="random per transaction; a restored database has others"),
    sqlite_autoincrement=True,  # without it SQLite may reuse the number of a pruned row
)
