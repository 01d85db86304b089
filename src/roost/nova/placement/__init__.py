# SPDX-License-Identifier: Apache-2.0
"""Placement, the ledger of a nova cloud, over its HTTP API.

Placement keeps, per *resource provider* (a compute node), how much there is of each resource class (*inventory*), and
which *consumer* (an instance, or a migration) holds how much of it (*allocation*). A provider has a *generation*,
which rises with every claim and every change of its inventory, traits or aggregates, but not when room becomes free.

Start reading at `client.py` (one HTTP call, and whether placement answers), then `providers.py` (what there is, and
what is used of it) and `allocations.py` (claims).
"""
