# SPDX-License-Identifier: Apache-2.0
"""State in a database: SQLite when embedded, PostgreSQL or MariaDB in production. Start reading at `schema.py`.

| module | what it holds |
| --- | --- |
| `schema.py`, `columns.py` | tables, types, and checks of values before they are written |
| `schema_upgrade.py`, `revisions/` | creating and upgrading the tables |
| `engine.py` | connecting |
| `transactions.py` | writing all or nothing; locks; errors of drivers as Roost's errors |
| `statements.py`, `libpq_pipeline.py` | many rows in few statements, and several statements in one round trip |
| `reconcile.py` | making stored rows equal to wanted ones |
| `pages.py` | pages of a list |
| `store_clock.py` | the time that all machines agree on |
| `change_log.py` | numbered changes, by which schedulers keep their replicas current |

This package module imports nothing, so that declaring the options does not load a database library.
"""
