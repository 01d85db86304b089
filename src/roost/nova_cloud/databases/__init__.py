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

from roost.nova_cloud.databases.api_reader import ApiReader, ApiState
from roost.nova_cloud.databases.cell_changes import CellChanges, ComputeService, PlacedInstance, ReportedNode
from roost.nova_cloud.databases.cell_reader import CellReader
from roost.nova_cloud.databases.cells import CELL0_UUID, Cell, CellAddresses, read_cells
from roost.nova_cloud.databases.read_only_engine import open_read_only, parse_nova_url, reading
from roost.nova_cloud.databases.table_rights import (
    TableProblem,
    describe_writing,
    find_entry_grants,
    find_missing_grant,
    find_unreadable,
    find_unwritable,
)
from roost.nova_cloud.databases.tables import API as API_TABLES
from roost.nova_cloud.databases.tables import CELL as CELL_TABLES
from roost.nova_cloud.databases.tables import SHADOW as SHADOW_TABLES
from roost.nova_cloud.databases.writing_engine import open_for_writing, writing
from roost.nova_cloud.databases.written_tables import compute_nodes, host_mappings, services

__all__ = [
    "API_TABLES",
    "CELL0_UUID",
    "CELL_TABLES",
    "SHADOW_TABLES",
    "ApiReader",
    "ApiState",
    "Cell",
    "CellAddresses",
    "CellChanges",
    "CellReader",
    "ComputeService",
    "PlacedInstance",
    "ReportedNode",
    "TableProblem",
    "compute_nodes",
    "describe_writing",
    "find_entry_grants",
    "find_missing_grant",
    "find_unreadable",
    "find_unwritable",
    "host_mappings",
    "open_for_writing",
    "open_read_only",
    "parse_nova_url",
    "read_cells",
    "reading",
    "services",
    "writing",
]
