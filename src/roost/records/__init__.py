# SPDX-License-Identifier: Apache-2.0
"""The fleet in the database: import and export of fleet files, reports of agents, and the records of hosts.

| table | owner |
| --- | --- |
| `compute_nodes`, `node_traits`, `inventories` | `node_writer.py` writes, `node_reader.py` reads |
| `services` | `services.py` |
| `heartbeat_probes` | `outages.py`, which says what counts as silence |
| `servers` | `servers.py` |
| `aggregates` with metadata and hosts | `aggregates.py` |
| `flavors`, `images`, `server_groups` with their parts | `catalogue.py` |

What clients of the API create, change and list of these tables is in modules of its own, one per subject:
`flavor_catalogue.py`, `image_catalogue.py`, `aggregate_catalogue.py`, `service_catalogue.py`,
`hypervisor_catalogue.py`, `zone_catalogue.py` and `group_catalogue.py`.

What a claim changes belongs to the ledger (`roost.claims`): `consumers`, `allocations`, the `used` of `inventories`,
slots and hosts of server groups, and the free amounts of nodes. An import writes consumers and allocations too
(`instance_import.py`, `node_writer.py`), under the locks of their nodes and in the ledger's lock order: groups first,
then nodes by id.

Two readers outside of this package: the ledger, which must not import it, reads nodes, groups and servers under its
own locks and in its audit; `scheduler/own_source.py` reads what a claim changes, in one round trip.
"""
