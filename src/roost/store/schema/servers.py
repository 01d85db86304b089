# SPDX-License-Identifier: Apache-2.0
"""Tables of servers, their groups and their moves, and of what they are made of: flavors and images."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    PrimaryKeyConstraint,
    String,
    false,
    true,
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

servers = table(
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
    *times(),
    Column("generation", BigInteger, **not_null(comment="counts the changes of the life cycle: a fencing token")),
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

server_faults = table(
    "server_faults",
    Column("id", ROW_NUMBER, primary_key=True),
    Column("server_uuid", UUID, ForeignKey("servers.uuid", ondelete="CASCADE"), nullable=False, index=True),
    Column("code", Integer, nullable=False),
    Column("message", LONG_TEXT, nullable=False),
    Column("details", LONG_TEXT, comment="for admins: the decision in one line, the reasons of failed attempts"),
    Column("host", NAME),
    Column("created_at", UtcTime, nullable=False, index=True),
)

guest_removals = table(
    "guest_removals",
    Column("server_uuid", UUID, ForeignKey("servers.uuid", ondelete="CASCADE"), nullable=False),
    Column("host", NAME, nullable=False, index=True),
    Column("generation", BigInteger, nullable=False, comment="of the server when it left the host"),
    Column("attempts", Integer, nullable=False, comment="how often its agent was told again"),
    Column("send_after", UtcTime, nullable=False, index=True, comment="when its agent is told again"),
    Column("created_at", UtcTime, nullable=False),
    PrimaryKeyConstraint("server_uuid", "host"),
)

server_groups = table(
    "server_groups",
    Column("id", ROW_NUMBER, primary_key=True),
    Column("uuid", UUID, nullable=False, unique=True),
    Column("name", NAME, nullable=False),
    Column("project_id", NAME, index=True),
    Column("user_id", NAME),
    Column("policy", String(64)),
    Column("max_server_per_host", BigInteger),
    *times(),
)

server_group_members = table(
    "server_group_members",
    parent_id("server_groups", "group_id"),
    Column("server_uuid", UUID, nullable=False, index=True),
    PrimaryKeyConstraint("group_id", "server_uuid"),
)

server_group_slots = table(
    "server_group_slots",
    parent_id("server_groups", "group_id"),
    Column("host", NAME, nullable=False),
    Column("slot", Integer, nullable=False, autoincrement=False, comment="0 to max_server_per_host - 1"),
    Column("consumer_uuid", UUID, ForeignKey("consumers.uuid", ondelete="CASCADE"), nullable=False, index=True),
    PrimaryKeyConstraint("group_id", "host", "slot"),
    CheckConstraint("slot >= 0", name="slot"),
)

server_group_hosts = table(
    "server_group_hosts",
    parent_id("server_groups", "group_id"),
    Column("host", NAME, nullable=False),
    PrimaryKeyConstraint("group_id"),
)

migrations = table(
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
    *times(),
    Index(None, "updated_at"),
)

flavors = table(
    "flavors",
    Column("id", ROW_NUMBER, primary_key=True),
    Column("flavorid", NAME, nullable=False, unique=True),
    Column("name", NAME, nullable=False, unique=True),
    Column("vcpus", BigInteger, nullable=False),
    Column("memory_mb", BigInteger, nullable=False),
    Column("root_gb", BigInteger, **not_null()),
    Column("ephemeral_gb", BigInteger, **not_null()),
    Column("swap", BigInteger, **not_null(comment="MiB, nova's unit")),
    Column("is_public", Boolean, nullable=False, server_default=true()),
    Column("disabled", Boolean, nullable=False, server_default=false()),
    *times(),
    Column("description", LONG_TEXT),
    Column("rxtx_factor", Double, **not_null(1)),
)

flavor_extra_specs = table(
    "flavor_extra_specs",
    parent_id("flavors", "flavor_id"),
    Column("key", NAME, nullable=False),
    Column("value", LONG_TEXT, nullable=False),
    PrimaryKeyConstraint("flavor_id", "key"),
)

images = table(
    "images",
    Column("id", NAME, primary_key=True),
    Column("name", NAME, nullable=False, index=True),
    Column("properties", JsonText),
    Column("disk_format", NAME),
    Column("container_format", NAME),
    Column("status", NAME),
    Column("min_ram", BigInteger, **not_null(comment="MiB")),
    Column("min_disk", BigInteger, **not_null(comment="GiB")),
    Column("size", BigInteger, comment="bytes"),
    *times(),
    Column("owner", NAME, comment="its project; NULL: an administrator's"),
    Column("visibility", String(16), nullable=False, server_default="public"),
)
