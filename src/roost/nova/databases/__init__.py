# SPDX-License-Identifier: Apache-2.0
"""nova's API database and cell databases: start reading at `cell_reader.py`.

| what | where |
| --- | --- |
| addresses of cells | `cells.py` |
| engines that cannot write | `read_only_engine.py` |
| engines for the two writes that options switch on | `writing_engine.py`, `written_tables.py` |
| cells, host mappings, aggregates, server groups | `api_reader.py`, `server_groups.py` |
| nodes, services and instances of a cell | `cell_reader.py`, a follower per table, `cell_changes.py` |
| rights of a user, and the GRANT that is missing | `table_rights.py` |
| rows as host records and instances | `node_decoder.py`, `instance_decoder.py`, `json_columns.py` |
"""
