# SPDX-License-Identifier: Apache-2.0
"""State in a database: SQLite when embedded, PostgreSQL or MariaDB in production. Start reading at `schema.py`.

This module imports nothing, so that those who only declare options do not load a database library.
"""
