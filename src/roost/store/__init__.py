# SPDX-License-Identifier: Apache-2.0
"""State in a database: SQLite when embedded, PostgreSQL or MariaDB in production. Start reading at `schema.py`.

| module | what it holds |
| --- | --- |
| `schema.py`, `column_types.py`, `column_limits.py` | tables, types, and checks of values before they are written |
| `schema_upgrade.py`, `revisions/` | creating and upgrading the tables |
| `database_url.py`, `engine.py`, `options/declare.py` | connecting |
| `transactions.py`, `error_mapping.py` | writing all or nothing; errors of drivers as Roost's errors |
| `bulk.py`, `reconcile.py` | many rows in few statements; making stored rows equal to wanted ones |
| `statement_batch.py`, `libpq_pipeline.py` | several statements in one round trip |
| `change_log.py` | numbered changes, by which schedulers keep their replicas current |

This package module imports nothing, so that declaring the options does not load a database library.
"""
