# SPDX-License-Identifier: Apache-2.0
"""The tables. Names are nova's where nova has such a table or column; units are in the names.

A change here needs a revision in `revisions/`; a test compares schema and revisions.

Invariants that constraints of the database enforce, however many schedulers there are:

- a slot of an anti-affinity group on a host has one owner (`server_group_slots`); there are as many slots per host as
  the group's `max_server_per_host`;
- an affinity group is bound to one host (`server_group_hosts`);
- a consumer has one allocation of a resource class of a node (`allocations`), so a repeated claim cannot count twice.

A consumer is an instance, a migration (which has its instance's allocation on the source during a move) or
`unlisted`: use that an imported node reported and that no listed instance accounts for.

A transaction that changes what schedulers have in their replicas also inserts into `changes`: docs/adr/0007.
"""

from roost.store.columns import metadata
from roost.store.schema import access, fleet, history, servers  # so that `metadata` has all tables

__all__ = ["access", "fleet", "history", "metadata", "servers"]
