# SPDX-License-Identifier: Apache-2.0
"""The options of section [database], by nova's names."""

from __future__ import annotations

from dataclasses import dataclass

from roost.options.declare import option

GROUP = "database"


@dataclass(frozen=True)
class DatabaseOptions:
    """URL of the database, and how connections to it are pooled."""

    connection: str | None = option(
        None,
        group=GROUP,
        reloads=False,
        secret=True,
        in_fleet=False,
        old=("sql_connection", "DATABASE.sql_connection", "sql.connection"),
        help="address of Roost's own database: sqlite:////FILE, postgresql://... or mysql+pymysql://...",
    )
    max_pool_size: int = option(
        5,
        min=1,
        group=GROUP,
        reloads=False,
        old=("sql_max_pool_size",),
        help="connections that stay open in the pool, per process",
    )
    max_overflow: int = option(
        50,
        min=0,
        group=GROUP,
        reloads=False,
        old=("sql_max_overflow",),
        help="connections beyond max_pool_size, opened while all of the pool are in use",
    )
    pool_timeout: int = option(
        30, min=0, group=GROUP, reloads=False, help="seconds to wait for a connection when all of them are in use"
    )
    connection_recycle_time: int = option(
        3600,
        min=-1,
        group=GROUP,
        reloads=False,
        old=("database.idle_timeout", "sql_idle_timeout"),
        help="seconds after which a connection is replaced by a new one; -1: never",
    )
    sqlite_synchronous: bool = option(
        True, group=GROUP, reloads=False, old=("sqlite_synchronous",), help="SQLite waits for the disk at each commit"
    )

    def __repr__(self) -> str:
        """All values except the URL, which may contain a password."""
        return f"DatabaseOptions({vars(self) | {'connection': '***'}})"
