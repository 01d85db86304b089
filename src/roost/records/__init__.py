# SPDX-License-Identifier: Apache-2.0
"""The cloud in the database - hosts, servers, catalogues, users, decisions - with one subject a module.

| table | owner |
| --- | --- |
| `compute_nodes`, `node_traits`, `inventories` | `node_writer.py` writes, `node_reader.py` reads |
| `services` | `services.py` |
| `heartbeat_probes` | `outages.py`, which says what counts as silence |
| `servers`, their faults and migrations | `servers.py`; the life of a server is a table in `server_steps.py` |
| `aggregates` with metadata and hosts | `aggregates.py` |
| `flavors`, `images`, `server_groups` with their parts | `catalogue.py` |
| decisions and what they saw | `decisions.py` |
| users, projects, roles; tokens | `users.py`; `tokens.py` |

Start at `servers.py`. Clients of the API change and list flavors, images, services and groups in modules named
`..._catalogue.py`, nodes in `hypervisors.py`. Fleet files are imported by `fleet_import.py`.

What a claim changes belongs to the ledger (`roost.ledger`): `consumers`, `allocations`, the `used` of `inventories`,
slots and hosts of server groups, and the free amounts of nodes. An import writes consumers and allocations too
(`fleet_import.py`, `node_writer.py`), under the locks of their nodes and in the ledger's lock order: groups first,
then nodes by id.

Two readers outside of this package: the ledger, which must not import it, reads nodes, groups and servers under its
own locks and in its audit; `roost.scheduler.own_source` reads what a claim changes, in one round trip.
"""
