# SPDX-License-Identifier: Apache-2.0
"""All tables of the first release."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from roost.store.columns import LONG_TEXT, NAME, ROW_NUMBER, UUID, JsonText, UtcTime

revision = "0001"
down_revision = None

TABLE: dict[str, Any] = {
    "if_not_exists": True,
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_nopad_bin",
}


def upgrade() -> None:
    """Table by table; a part of the schema that is there from an interrupted run is left as it is."""
    create_fleet()
    create_aggregates()
    create_ledger()
    create_servers()
    create_server_groups()
    create_flavors_and_images()
    create_history()


def create_fleet() -> None:
    """Hosts and the agents on them."""
    op.create_table(
        "services",
        sa.Column("id", ROW_NUMBER, nullable=False),
        sa.Column("uuid", UUID, nullable=False),
        sa.Column("host", NAME, nullable=False),
        sa.Column("binary", NAME, nullable=False),
        sa.Column("topic", NAME),
        sa.Column("version", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column("report_count", sa.BigInteger, nullable=False, server_default=sa.text("0")),
        sa.Column("disabled", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("disabled_reason", LONG_TEXT),
        sa.Column("forced_down", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column(
            "is_static", sa.Boolean, nullable=False, server_default=sa.false(), comment="no agent: counts as up"
        ),
        sa.Column("last_seen_up", UtcTime),
        sa.Column("created_at", UtcTime),
        sa.Column("updated_at", UtcTime),
        sa.PrimaryKeyConstraint("id", name="pk_services"),
        sa.UniqueConstraint("host", "binary", name="uq_services_host_binary"),
        sa.UniqueConstraint("uuid", name="uq_services_uuid"),
        **TABLE,
    )
    op.create_table(
        "compute_nodes",
        sa.Column("id", ROW_NUMBER, nullable=False),
        sa.Column("uuid", UUID, nullable=False),
        sa.Column("host", NAME, nullable=False),
        sa.Column("hypervisor_hostname", NAME, nullable=False),
        sa.Column("cell", NAME, nullable=False, server_default="cell1"),
        sa.Column("vcpus", sa.BigInteger, nullable=False, server_default=sa.text("0")),
        sa.Column("memory_mb", sa.BigInteger, nullable=False, server_default=sa.text("0")),
        sa.Column("local_gb", sa.BigInteger, nullable=False, server_default=sa.text("0")),
        sa.Column("vcpus_used", sa.BigInteger, nullable=False, server_default=sa.text("0")),
        sa.Column("memory_mb_used", sa.BigInteger, nullable=False, server_default=sa.text("0")),
        sa.Column("local_gb_used", sa.BigInteger, nullable=False, server_default=sa.text("0")),
        sa.Column("free_ram_mb", sa.BigInteger),
        sa.Column("free_disk_gb", sa.BigInteger, comment="NULL: the node has not reported yet"),
        sa.Column("disk_available_least", sa.BigInteger),
        sa.Column("current_workload", sa.BigInteger),
        sa.Column("running_vms", sa.BigInteger),
        sa.Column("cpu_allocation_ratio", sa.Double),
        sa.Column("ram_allocation_ratio", sa.Double),
        sa.Column("disk_allocation_ratio", sa.Double),
        sa.Column("hypervisor_type", NAME),
        sa.Column("hypervisor_version", sa.BigInteger, nullable=False, server_default=sa.text("0")),
        sa.Column("host_ip", sa.String(45)),
        sa.Column("cpu_info", JsonText),
        sa.Column("supported_instances", JsonText),
        sa.Column("stats", JsonText),
        sa.Column("metrics", JsonText),
        sa.Column("numa_topology", JsonText),
        sa.Column("pci_stats", JsonText),
        sa.Column("created_at", UtcTime),
        sa.Column("updated_at", UtcTime),
        sa.PrimaryKeyConstraint("id", name="pk_compute_nodes"),
        sa.UniqueConstraint("host", "hypervisor_hostname", name="uq_compute_nodes_host_hypervisor_hostname"),
        sa.UniqueConstraint("uuid", name="uq_compute_nodes_uuid"),
        **TABLE,
    )
    op.create_table(
        "node_traits",
        sa.Column("node_id", ROW_NUMBER, nullable=False),
        sa.Column("trait", NAME, nullable=False),
        sa.PrimaryKeyConstraint("node_id", "trait", name="pk_node_traits"),
        sa.ForeignKeyConstraint(["node_id"], ["compute_nodes.id"], name="fk_node_traits_node_id", ondelete="CASCADE"),
        **TABLE,
    )


def create_aggregates() -> None:
    """Named sets of hosts."""
    op.create_table(
        "aggregates",
        sa.Column("id", ROW_NUMBER, nullable=False),
        sa.Column("uuid", UUID, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("created_at", UtcTime),
        sa.Column("updated_at", UtcTime),
        sa.PrimaryKeyConstraint("id", name="pk_aggregates"),
        sa.UniqueConstraint("name", name="uq_aggregates_name"),
        sa.UniqueConstraint("uuid", name="uq_aggregates_uuid"),
        **TABLE,
    )
    op.create_table(
        "aggregate_hosts",
        sa.Column("aggregate_id", ROW_NUMBER, nullable=False),
        sa.Column("host", NAME, nullable=False),
        sa.PrimaryKeyConstraint("aggregate_id", "host", name="pk_aggregate_hosts"),
        sa.ForeignKeyConstraint(
            ["aggregate_id"], ["aggregates.id"], name="fk_aggregate_hosts_aggregate_id", ondelete="CASCADE"
        ),
        **TABLE,
    )
    op.create_index("ix_aggregate_hosts_host", "aggregate_hosts", ["host"], if_not_exists=True)
    op.create_table(
        "aggregate_metadata",
        sa.Column("aggregate_id", ROW_NUMBER, nullable=False),
        sa.Column("key", NAME, nullable=False),
        sa.Column("value", LONG_TEXT, nullable=False),
        sa.PrimaryKeyConstraint("aggregate_id", "key", name="pk_aggregate_metadata"),
        sa.ForeignKeyConstraint(
            ["aggregate_id"], ["aggregates.id"], name="fk_aggregate_metadata_aggregate_id", ondelete="CASCADE"
        ),
        **TABLE,
    )


def create_ledger() -> None:
    """What hosts have, and who holds how much of it."""
    op.create_table(
        "inventories",
        sa.Column("node_id", ROW_NUMBER, nullable=False),
        sa.Column("resource_class", NAME, nullable=False),
        sa.Column("total", sa.BigInteger, nullable=False),
        sa.Column("reserved", sa.BigInteger, nullable=False, server_default=sa.text("0")),
        sa.Column("allocation_ratio", sa.Double, nullable=False, server_default=sa.text("1")),
        sa.Column("min_unit", sa.BigInteger, nullable=False, server_default=sa.text("1")),
        sa.Column("max_unit", sa.BigInteger, comment="NULL: the total"),
        sa.Column("step_size", sa.BigInteger, nullable=False, server_default=sa.text("1")),
        sa.Column(
            "used", sa.BigInteger, nullable=False, server_default=sa.text("0"), comment="the sum of the allocations"
        ),
        sa.PrimaryKeyConstraint("node_id", "resource_class", name="pk_inventories"),
        sa.CheckConstraint("used >= 0", name="ck_inventories_ck_inventories_used"),
        sa.ForeignKeyConstraint(["node_id"], ["compute_nodes.id"], name="fk_inventories_node_id", ondelete="CASCADE"),
        **TABLE,
    )
    op.create_table(
        "consumers",
        sa.Column("uuid", UUID, nullable=False),
        sa.Column("kind", sa.String(32), nullable=False, server_default="instance", comment="instance or migration"),
        sa.Column("project_id", NAME),
        sa.Column("user_id", NAME),
        sa.Column("created_at", UtcTime),
        sa.Column("updated_at", UtcTime),
        sa.PrimaryKeyConstraint("uuid", name="pk_consumers"),
        **TABLE,
    )
    op.create_table(
        "allocations",
        sa.Column("consumer_uuid", UUID, nullable=False),
        sa.Column("node_id", ROW_NUMBER, nullable=False),
        sa.Column("resource_class", NAME, nullable=False),
        sa.Column("used", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("consumer_uuid", "node_id", "resource_class", name="pk_allocations"),
        sa.CheckConstraint("used > 0", name="ck_allocations_ck_allocations_used"),
        sa.ForeignKeyConstraint(
            ["consumer_uuid"], ["consumers.uuid"], name="fk_allocations_consumer_uuid", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["node_id"], ["compute_nodes.id"], name="fk_allocations_node_id"),
        **TABLE,
    )
    op.create_index("ix_allocations_node_id", "allocations", ["node_id"], if_not_exists=True)


def create_servers() -> None:
    """Virtual machines and their moves."""
    op.create_table(
        "servers",
        sa.Column("uuid", UUID, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("project_id", NAME),
        sa.Column("user_id", NAME),
        sa.Column("host", NAME),
        sa.Column("node", NAME),
        sa.Column("availability_zone", NAME),
        sa.Column("vm_state", sa.String(64)),
        sa.Column("task_state", sa.String(64)),
        sa.Column("image_id", NAME),
        sa.Column("flavor", JsonText, comment="as it was when the server was made or resized"),
        sa.Column("request_spec", JsonText),
        sa.Column("created_at", UtcTime),
        sa.Column("updated_at", UtcTime),
        sa.PrimaryKeyConstraint("uuid", name="pk_servers"),
        **TABLE,
    )
    op.create_index("ix_servers_host_node", "servers", ["host", "node"], if_not_exists=True)
    op.create_index("ix_servers_project_id", "servers", ["project_id"], if_not_exists=True)
    op.create_table(
        "migrations",
        sa.Column("id", ROW_NUMBER, nullable=False),
        sa.Column("uuid", UUID, nullable=False),
        sa.Column("server_uuid", UUID, nullable=False),
        sa.Column("migration_type", sa.String(32), nullable=False),
        sa.Column("status", sa.String(64), nullable=False),
        sa.Column("source_compute", NAME),
        sa.Column("source_node", NAME),
        sa.Column("dest_compute", NAME),
        sa.Column("dest_node", NAME),
        sa.Column("old_flavor", JsonText),
        sa.Column("new_flavor", JsonText),
        sa.Column("created_at", UtcTime),
        sa.Column("updated_at", UtcTime),
        sa.PrimaryKeyConstraint("id", name="pk_migrations"),
        sa.UniqueConstraint("uuid", name="uq_migrations_uuid"),
        **TABLE,
    )
    op.create_index("ix_migrations_server_uuid", "migrations", ["server_uuid"], if_not_exists=True)
    op.create_index("ix_migrations_status", "migrations", ["status"], if_not_exists=True)


def create_server_groups() -> None:
    """Groups, and the rows whose uniqueness keeps their members apart or together."""
    op.create_table(
        "server_groups",
        sa.Column("id", ROW_NUMBER, nullable=False),
        sa.Column("uuid", UUID, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("project_id", NAME),
        sa.Column("user_id", NAME),
        sa.Column("policy", sa.String(64)),
        sa.Column("max_server_per_host", sa.BigInteger),
        sa.Column("created_at", UtcTime),
        sa.Column("updated_at", UtcTime),
        sa.PrimaryKeyConstraint("id", name="pk_server_groups"),
        sa.UniqueConstraint("uuid", name="uq_server_groups_uuid"),
        **TABLE,
    )
    op.create_index("ix_server_groups_project_id", "server_groups", ["project_id"], if_not_exists=True)
    op.create_table(
        "server_group_members",
        sa.Column("group_id", ROW_NUMBER, nullable=False),
        sa.Column("server_uuid", UUID, nullable=False),
        sa.PrimaryKeyConstraint("group_id", "server_uuid", name="pk_server_group_members"),
        sa.ForeignKeyConstraint(
            ["group_id"], ["server_groups.id"], name="fk_server_group_members_group_id", ondelete="CASCADE"
        ),
        **TABLE,
    )
    op.create_index(
        "ix_server_group_members_server_uuid", "server_group_members", ["server_uuid"], if_not_exists=True
    )
    op.create_table(
        "server_group_slots",
        sa.Column("group_id", ROW_NUMBER, nullable=False),
        sa.Column("host", NAME, nullable=False),
        sa.Column("slot", sa.Integer, nullable=False, autoincrement=False, comment="0 to max_server_per_host - 1"),
        sa.Column("consumer_uuid", UUID, nullable=False),
        sa.PrimaryKeyConstraint("group_id", "host", "slot", name="pk_server_group_slots"),
        sa.CheckConstraint("slot >= 0", name="ck_server_group_slots_ck_server_group_slots_slot"),
        sa.ForeignKeyConstraint(
            ["consumer_uuid"], ["consumers.uuid"], name="fk_server_group_slots_consumer_uuid", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["group_id"], ["server_groups.id"], name="fk_server_group_slots_group_id", ondelete="CASCADE"
        ),
        **TABLE,
    )
    op.create_index(
        "ix_server_group_slots_consumer_uuid", "server_group_slots", ["consumer_uuid"], if_not_exists=True
    )
    op.create_table(
        "server_group_hosts",
        sa.Column("group_id", ROW_NUMBER, nullable=False),
        sa.Column("host", NAME, nullable=False),
        sa.PrimaryKeyConstraint("group_id", name="pk_server_group_hosts"),
        sa.ForeignKeyConstraint(
            ["group_id"], ["server_groups.id"], name="fk_server_group_hosts_group_id", ondelete="CASCADE"
        ),
        **TABLE,
    )


def create_flavors_and_images() -> None:
    """What is asked for."""
    op.create_table(
        "flavors",
        sa.Column("id", ROW_NUMBER, nullable=False),
        sa.Column("flavorid", NAME, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("vcpus", sa.BigInteger, nullable=False),
        sa.Column("memory_mb", sa.BigInteger, nullable=False),
        sa.Column("root_gb", sa.BigInteger, nullable=False, server_default=sa.text("0")),
        sa.Column("ephemeral_gb", sa.BigInteger, nullable=False, server_default=sa.text("0")),
        sa.Column("swap", sa.BigInteger, nullable=False, server_default=sa.text("0"), comment="MiB, nova's unit"),
        sa.Column("is_public", sa.Boolean, nullable=False, server_default=sa.true()),
        sa.Column("disabled", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("created_at", UtcTime),
        sa.Column("updated_at", UtcTime),
        sa.PrimaryKeyConstraint("id", name="pk_flavors"),
        sa.UniqueConstraint("flavorid", name="uq_flavors_flavorid"),
        sa.UniqueConstraint("name", name="uq_flavors_name"),
        **TABLE,
    )
    op.create_table(
        "flavor_extra_specs",
        sa.Column("flavor_id", ROW_NUMBER, nullable=False),
        sa.Column("key", NAME, nullable=False),
        sa.Column("value", LONG_TEXT, nullable=False),
        sa.PrimaryKeyConstraint("flavor_id", "key", name="pk_flavor_extra_specs"),
        sa.ForeignKeyConstraint(
            ["flavor_id"], ["flavors.id"], name="fk_flavor_extra_specs_flavor_id", ondelete="CASCADE"
        ),
        **TABLE,
    )
    op.create_table(
        "images",
        sa.Column("id", NAME, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("properties", JsonText),
        sa.Column("disk_format", NAME),
        sa.Column("container_format", NAME),
        sa.Column("status", NAME),
        sa.Column("min_ram", sa.BigInteger, nullable=False, server_default=sa.text("0"), comment="MiB"),
        sa.Column("min_disk", sa.BigInteger, nullable=False, server_default=sa.text("0"), comment="GiB"),
        sa.Column("size", sa.BigInteger, comment="bytes"),
        sa.Column("created_at", UtcTime),
        sa.Column("updated_at", UtcTime),
        sa.PrimaryKeyConstraint("id", name="pk_images"),
        **TABLE,
    )
    op.create_index("ix_images_name", "images", ["name"], if_not_exists=True)


def create_history() -> None:
    """What was decided, and what changed."""
    op.create_table(
        "decisions",
        sa.Column("id", ROW_NUMBER, nullable=False),
        sa.Column("request_id", NAME),
        sa.Column("project_id", NAME),
        sa.Column("hosts", sa.BigInteger, nullable=False, comment="looked at"),
        sa.Column("wanted", sa.BigInteger, nullable=False, comment="instances asked for"),
        sa.Column("is_placed", sa.Boolean, nullable=False),
        sa.Column("summary", LONG_TEXT, nullable=False),
        sa.Column("record", JsonText, nullable=False, comment="the Decision as JSON"),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_decisions"),
        **TABLE,
    )
    op.create_index("ix_decisions_created_at", "decisions", ["created_at"], if_not_exists=True)
    op.create_index("ix_decisions_request_id", "decisions", ["request_id"], if_not_exists=True)
    op.create_table(
        "changes",
        sa.Column("number", ROW_NUMBER, nullable=False, comment="counts up; visible in any order"),
        sa.Column("subject", sa.String(64), nullable=False, comment="table that changed"),
        sa.Column("subject_key", NAME, nullable=False, comment="key of the row that changed, as text"),
        sa.PrimaryKeyConstraint("number", name="pk_changes"),
        sqlite_autoincrement=True,
        **TABLE,
    )
