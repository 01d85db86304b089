# SPDX-License-Identifier: Apache-2.0
"""Tables of users, and of what they may do."""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    Column,
    ForeignKey,
    PrimaryKeyConstraint,
    String,
    UniqueConstraint,
    true,
)

from roost.store.columns import (
    LONG_TEXT,
    NAME,
    UUID,
    JsonText,
    UtcTime,
    table,
)

projects = table(
    "projects",
    Column("id", UUID, primary_key=True),
    Column("name", NAME, nullable=False, unique=True),
    Column("enabled", Boolean, nullable=False, server_default=true()),
    Column("created_at", UtcTime),
)

users = table(
    "users",
    Column("id", UUID, primary_key=True),
    Column("name", NAME, nullable=False, unique=True),
    Column("password_hash", LONG_TEXT, comment="scrypt with its parameters and salt; NULL: no password"),
    Column("enabled", Boolean, nullable=False, server_default=true()),
    Column("created_at", UtcTime),
)

role_assignments = table(
    "role_assignments",
    Column("user_id", UUID, ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    Column("target_id", UUID, nullable=False, comment="a project's id, or 'system'"),
    Column("role", String(32), nullable=False, comment="admin, member or reader"),
    PrimaryKeyConstraint("user_id", "target_id", "role"),
)

application_credentials = table(
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

tokens = table(
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
