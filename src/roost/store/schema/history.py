# SPDX-License-Identifier: Apache-2.0
"""Tables of decisions, of what they saw, and of changes that replicas read."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    PrimaryKeyConstraint,
    String,
)

from roost.store.columns import (
    LONG_TEXT,
    NAME,
    ROW_NUMBER,
    UUID,
    CompressedJson,
    JsonText,
    UtcTime,
    table,
)

decisions = table(
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

decision_servers = table(
    "decision_servers",
    Column("server_uuid", UUID, nullable=False),
    Column("run_uuid", UUID, nullable=False),
    Column("number", BigInteger, nullable=False, autoincrement=False),
    PrimaryKeyConstraint("server_uuid", "run_uuid", "number"),
    Index(None, "run_uuid", "number"),
)

scheduler_runs = table(
    "scheduler_runs",
    Column("uuid", UUID, primary_key=True),
    Column("host", NAME, nullable=False),
    Column("options", JsonText, nullable=False, comment="options that decide, without secrets"),
    Column("created_at", UtcTime, nullable=False),
)

table_checkpoints = table(
    "table_checkpoints",
    Column("run_uuid", UUID, nullable=False),
    Column("position", BigInteger, nullable=False, autoincrement=False, comment="changes that it includes"),
    Column("part", Integer, nullable=False, autoincrement=False),
    Column("payload", LONG_TEXT, nullable=False, comment="a part of the compressed table of hosts"),
    Column("created_at", UtcTime, nullable=False, index=True),
    PrimaryKeyConstraint("run_uuid", "position", "part"),
)

table_changes = table(
    "table_changes",
    Column("run_uuid", UUID, nullable=False),
    Column("first", BigInteger, nullable=False, autoincrement=False, comment="position of the first change"),
    Column("last", BigInteger, nullable=False, comment="position of the last change"),
    Column("payload", CompressedJson, nullable=False),
    Column("created_at", UtcTime, nullable=False, index=True),
    PrimaryKeyConstraint("run_uuid", "first"),
)

changes = table(
    "changes",
    Column("number", ROW_NUMBER, primary_key=True, comment="counts up; visible in any order"),
    Column("subject", String(64), nullable=False, comment="table that changed"),
    Column("subject_key", NAME, nullable=False, comment="key of the row that changed, as text"),
    # No default: a writer of an older version, which knows nothing of guest_allocations, must fail.
    Column("token", BigInteger, nullable=False, comment="random per transaction; a restored database has others"),
    sqlite_autoincrement=True,  # without it SQLite may reuse the number of a pruned row
)
