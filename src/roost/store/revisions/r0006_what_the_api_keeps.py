# SPDX-License-Identifier: Apache-2.0
"""What the API keeps: users, their rights and tokens, and what only clients read of servers, flavors and images."""

import sqlalchemy as sa
from alembic import op

from roost.store.columns import LONG_TEXT, NAME, UUID, JsonText, UtcTime
from roost.store.revisions.r0001_first_schema import TABLE
from roost.store.revisions.r0002_what_fleets_and_consumers_say import add_column

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Each step is left out where an interrupted run has done it."""
    add_column("servers", sa.Column("description", LONG_TEXT))
    add_column("servers", sa.Column("metadata", JsonText, comment="what a client attached; no rule reads it"))
    add_column("servers", sa.Column("reservation_id", sa.String(64), comment="of the request that made it"))
    op.create_index("ix_servers_reservation_id", "servers", ["reservation_id"], if_not_exists=True)
    add_column("flavors", sa.Column("description", LONG_TEXT))
    add_column("flavors", sa.Column("rxtx_factor", sa.Double, nullable=False, server_default=sa.text("1")))
    add_column("images", sa.Column("owner", NAME, comment="its project; NULL: an administrator's"))
    add_column("images", sa.Column("visibility", sa.String(16), nullable=False, server_default="public"))
    _create_projects_and_users()
    _create_credentials()
    _create_tokens()


def _key_to(parent: str, table: str, column: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([column], [f"{parent}.id"], name=f"fk_{table}_{column}", ondelete="CASCADE")


def _create_projects_and_users() -> None:
    op.create_table(
        "projects",
        sa.Column("id", UUID, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("enabled", sa.Boolean, nullable=False, server_default=sa.true()),
        sa.Column("created_at", UtcTime),
        sa.PrimaryKeyConstraint("id", name="pk_projects"),
        sa.UniqueConstraint("name", name="uq_projects_name"),
        **TABLE,
    )
    op.create_table(
        "users",
        sa.Column("id", UUID, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("password_hash", LONG_TEXT, comment="scrypt with its parameters and salt; NULL: no password"),
        sa.Column("enabled", sa.Boolean, nullable=False, server_default=sa.true()),
        sa.Column("created_at", UtcTime),
        sa.PrimaryKeyConstraint("id", name="pk_users"),
        sa.UniqueConstraint("name", name="uq_users_name"),
        **TABLE,
    )
    op.create_table(
        "role_assignments",
        sa.Column("user_id", UUID, nullable=False),
        sa.Column("target_id", UUID, nullable=False, comment="a project's id, or 'system'"),
        sa.Column("role", sa.String(32), nullable=False, comment="admin, member or reader"),
        sa.PrimaryKeyConstraint("user_id", "target_id", "role", name="pk_role_assignments"),
        _key_to("users", "role_assignments", "user_id"),
        **TABLE,
    )


def _create_credentials() -> None:
    op.create_table(
        "application_credentials",
        sa.Column("id", UUID, nullable=False),
        sa.Column("user_id", UUID, nullable=False),
        sa.Column("project_id", UUID, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("secret_digest", sa.String(64), nullable=False, comment="SHA-256 of a random secret"),
        sa.Column("roles", JsonText, nullable=False),
        sa.Column("expires_at", UtcTime),
        sa.Column("created_at", UtcTime),
        sa.PrimaryKeyConstraint("id", name="pk_application_credentials"),
        sa.UniqueConstraint("user_id", "name", name="uq_application_credentials_user_id_name"),
        _key_to("users", "application_credentials", "user_id"),
        _key_to("projects", "application_credentials", "project_id"),
        **TABLE,
    )


def _create_tokens() -> None:
    op.create_table(
        "tokens",
        sa.Column("digest", sa.String(64), nullable=False, comment="SHA-256 of the token"),
        sa.Column("user_id", UUID, nullable=False),
        sa.Column("target_id", UUID, nullable=False, comment="a project's id, or 'system'"),
        sa.Column("roles", JsonText, nullable=False),
        sa.Column("method", sa.String(32), nullable=False, comment="password, token or application_credential"),
        sa.Column("description", LONG_TEXT),
        sa.Column("expires_at", UtcTime, nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("application_credential_id", UUID, comment="with which it was issued; it goes with it"),
        sa.PrimaryKeyConstraint("digest", name="pk_tokens"),
        _key_to("users", "tokens", "user_id"),
        _key_to("application_credentials", "tokens", "application_credential_id"),
        **TABLE,
    )
    op.create_index("ix_tokens_expires_at", "tokens", ["expires_at"], if_not_exists=True)
    op.create_index("ix_tokens_user_id", "tokens", ["user_id"], if_not_exists=True)
    credential = "application_credential_id"
    op.create_index(f"ix_tokens_{credential}", "tokens", [credential], if_not_exists=True)
