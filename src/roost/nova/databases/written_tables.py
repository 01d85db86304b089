# SPDX-License-Identifier: Apache-2.0
"""The tables that Roost writes to in a nova cloud if options say so, with the columns that it writes or looks up."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, DateTime, Integer, MetaData, String, Table

_API, _CELL = MetaData(), MetaData()

services = Table(
    "services",
    _CELL,
    *(Column(name, Integer) for name in ("id", "report_count", "version", "deleted")),
    *(Column(name, String) for name in ("host", "binary", "topic", "uuid")),
    *(Column(name, Boolean) for name in ("disabled", "forced_down")),
    *(Column(name, DateTime) for name in ("created_at", "updated_at", "last_seen_up")),
)
compute_nodes = Table(
    "compute_nodes",
    _CELL,
    *(Column(name, Integer) for name in ("id", "mapped", "deleted")),
    Column("host", String),
)
host_mappings = Table(
    "host_mappings", _API, Column("host", String), Column("cell_id", Integer), Column("created_at", DateTime)
)
