# SPDX-License-Identifier: Apache-2.0
"""nova's API database and cell databases: start reading at `CellReader` in `followers.py`.

| what | where |
| --- | --- |
| the API database: cells and their addresses, host mappings, aggregates, server groups | `api.py` |
| engines that cannot write, and those for the two writes that options switch on | `engines.py`, `written_tables.py` |
| nodes, services and instances of a cell, followed and decoded | `followers.py` |
| the columns that are read, JSON in them, and what was read from a cell | `tables.py` |
| rights of a user, and the GRANT that is missing | `table_rights.py` |
"""
