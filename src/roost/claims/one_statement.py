# SPDX-License-Identifier: Apache-2.0
"""A claim for one new instance on one node in one statement: how most claims are made on PostgreSQL.

The statement has the conditions of `Node.check_capacity`: the node has the capacity, min_unit, max_unit and step_size
allow the amounts, it is not bare metal, and the consumer is new and in no group. If one of them does not hold, the
statement fails and changes nothing. The ledger then makes the claim by way of `locked_read.py`, which finds the
reason of a refusal.

Pinned CPUs, NUMA memory and PCI devices are claimed by compare-and-swap: the scheduler has fitted the guest to what
it saw of the node, and the statement has the condition that the node's columns still say just that.

Two such claims on one node are serialised: the second waits for the lock on the node's row, and its conditions see
what the first has committed.
"""

from __future__ import annotations

import datetime
import json
from typing import Any

from sqlalchemy import Engine, TextClause, text
from sqlalchemy.exc import DataError, IntegrityError

from roost.claims.claim import Claim
from roost.hosts.guests import Guest, GuestSpace, space_texts
from roost.model.resources import INSTANCE
from roost.store.change_log import GUESTS, USAGE, make_token
from roost.store.columns import as_json_text
from roost.store.statements import Statement, utc_text
from roost.store.store_clock import given_or_present
from roost.store.transactions import database_errors

MOST_CLASSES = 4
"""Resource classes of a claim. As a LIMIT in the statement: PostgreSQL would plan for 100 and scan whole tables."""

_CREATED_AT = given_or_present("postgresql", ":now")
_SET_SPACE = ", numa_topology = CAST(:numa AS text), pci_stats = CAST(:pools AS text)"
_IS_SPACE_AS_SEEN = """
            AND numa_topology IS NOT DISTINCT FROM CAST(:seen_numa AS text)
            AND pci_stats IS NOT DISTINCT FROM CAST(:seen_pools AS text)"""
_INSERT_GUEST = """, guest AS (
        INSERT INTO guest_allocations (consumer_uuid, node_id, guest)
        SELECT consumer.uuid, node.id, :guest FROM consumer, node
    )"""
_GUEST_CHANGE = "UNION ALL SELECT :guest_subject, CAST(node.id AS text), CAST(:token AS bigint) FROM node"


def _make_statement(has_guest: bool) -> TextClause:
    set_space, is_as_seen, insert_guest, guest_change = (
        part if has_guest else "" for part in (_SET_SPACE, _IS_SPACE_AS_SEEN, _INSERT_GUEST, _GUEST_CHANGE)
    )
    return text(
        f"""
    WITH asked AS (
        SELECT key AS resource_class, CAST(value AS bigint) AS amount
        FROM json_each_text(CAST(:amounts AS json)) LIMIT {MOST_CLASSES}
    ), node AS (
        UPDATE compute_nodes SET
            free_ram_mb = free_ram_mb - :memory_mb, memory_mb_used = memory_mb_used + :memory_mb,
            free_disk_gb = free_disk_gb - :disk_gb, local_gb_used = local_gb_used + :disk_gb,
            vcpus_used = vcpus_used + :vcpus, running_vms = running_vms + 1{set_space}
        WHERE uuid = :node_uuid AND lower(coalesce(hypervisor_type, '')) <> 'ironic'
            AND NOT EXISTS (SELECT 1 FROM server_group_members WHERE server_uuid = :uuid){is_as_seen}
        RETURNING id
    ), taken AS (
        UPDATE inventories SET used = used + amount FROM asked, node
        WHERE node_id = node.id AND inventories.resource_class = asked.resource_class
            AND used + amount <= (total - reserved) * allocation_ratio
            AND amount BETWEEN min_unit AND coalesce(max_unit, total) AND amount % step_size = 0
        RETURNING 1
    ), consumer AS (
        INSERT INTO consumers (uuid, kind, project_id, user_id, details, created_at)
        SELECT :uuid, :kind, :project_id, :user_id, :details, {_CREATED_AT} FROM node RETURNING uuid
    ), allocation AS (
        INSERT INTO allocations (consumer_uuid, node_id, resource_class, used)
        SELECT consumer.uuid, node.id, resource_class, amount FROM consumer, node, asked
    ){insert_guest}, change AS (
        INSERT INTO changes (subject, subject_key, token)
        SELECT :subject, node.id || '/' || consumer.uuid, CAST(:token AS bigint) FROM node, consumer
        {guest_change}
    )
    SELECT 1 / CASE WHEN (SELECT count(*) FROM taken) = :classes THEN 1 ELSE 0 END
    """  # noqa: S608 - only constants are filled in
    )


_CLAIM, _CLAIM_WITH_GUEST = _make_statement(has_guest=False), _make_statement(has_guest=True)


class OneStatementClaim:
    """Makes claims in one statement, over a connection that stays open. Not thread-safe."""

    def __init__(self, engine: Engine) -> None:
        from roost.store.libpq_pipeline import PersistentPipeline  # needs psycopg, which is slow to import

        self._engine = engine
        self._pipeline = PersistentPipeline(engine)

    def claim(self, claim: Claim, now: datetime.datetime | None = None) -> bool:
        """Make the claim: False if a condition does not hold, or the claim needs more than one statement can do.

        Nothing is changed then. `now`: creation time of the consumer; None: by the database's clock.
        """
        amounts = {name: amount for name, amount in claim.amounts.items() if amount}
        if claim.group is not None or not 0 < len(amounts) <= MOST_CLASSES:
            return False
        statement, values, guest, seen = _CLAIM, _values(claim, amounts, now), claim.guest, claim.seen_space
        if guest is not None:
            if seen is None or seen.shortage(guest, claim.guest_limits):
                return False
            statement, values = _CLAIM_WITH_GUEST, {**values, **_guest_values(guest, seen)}
        with database_errors(self._engine):
            try:
                self._pipeline.send(Statement(statement, values))
            except (DataError, IntegrityError):
                return False
        return True


def _values(claim: Claim, amounts: dict[str, int], now: datetime.datetime | None) -> dict[str, Any]:
    return {
        **claim.use._asdict(),
        "amounts": json.dumps(amounts),
        "classes": len(amounts),
        "node_uuid": claim.node_uuid,
        "uuid": claim.consumer_uuid,
        "kind": INSTANCE,
        "project_id": claim.project_id,
        "user_id": claim.user_id,
        "details": as_json_text({**claim.details, "use": list(claim.use)}),
        "now": utc_text(now) if now else None,
        "subject": USAGE,
        "token": make_token(),
    }


def _guest_values(guest: Guest, seen: GuestSpace) -> dict[str, Any]:
    before, after = space_texts(seen), space_texts(seen.with_guest(guest))
    return {
        "seen_numa": before.numa,
        "seen_pools": before.pools,
        "numa": after.numa,
        "pools": after.pools,
        "guest": guest.to_text(),
        "guest_subject": GUESTS,
    }
