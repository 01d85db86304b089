# SPDX-License-Identifier: Apache-2.0
"""Parts of small clouds that the tests of several defects share."""

import uuid

from tests.flow.cloud import UUID

from roost.model import ServerGroup
from roost.model.resources import move_of

RAM = {"filter_scheduler": {"weight_classes": ["RAMWeigher"]}}
THREE = {"a": {}, "b": {"total_usable_ram_mb": 30000}, "c": {"total_usable_ram_mb": 20000}}
TWO = {"a": {}, "b": {"total_usable_ram_mb": 30000}}
INSTANCE = UUID % 1
MIGRATION = move_of(INSTANCE)


def new_group(policy="anti-affinity", **more):
    return ServerGroup(policy, "g", str(uuid.uuid4()), **more)


def all_held(cloud, *consumers):
    """Hosts of everything that the consumers hold, sorted."""
    return sorted(host for hosts in cloud.held(*consumers).values() for host in hosts)


def node_uuids(engine):
    """Host -> uuid of its node."""
    with engine.connect() as connection:
        return dict(tuple(row) for row in connection.exec_driver_sql("select host, uuid from compute_nodes"))


class Interrupted:
    """A ledger in which something else happens right before the first claim or move."""

    def __init__(self, ledger, happens):
        self._ledger, self._happens = ledger, [happens]

    def __getattr__(self, name):
        return getattr(self._ledger, name)

    def claim(self, claims):
        self._interrupt()
        return self._ledger.claim(claims)

    def claim_and_move(self, claims, moves):
        self._interrupt()
        return self._ledger.claim_and_move(claims, moves)

    def _interrupt(self):
        while self._happens:
            self._happens.pop()()
