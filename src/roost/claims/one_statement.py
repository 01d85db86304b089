# SPDX-License-Identifier: Apache-2.0
"""One instance that is new, on one node, in one statement: the way that most claims go on PostgreSQL.

It takes what there is only if everything is as a claim hopes for: the node has the room, its portions are right, it
is no bare metal, and nobody knows the instance. The conditions are those of `books.py`, told to the database. Where
one does not hold, the statement fails, nothing has changed, and the claim goes the long way, which says why.

Two of them on one node come after one another: the second waits for the row of the node, and its conditions are asked
of what the first has left.
"""

from __future__ import annotations

import datetime
import json
from typing import Any

from sqlalchemy import Engine, text
from sqlalchemy.exc import DataError, IntegrityError

from roost.claims.claim import Claim
from roost.model.consumers import INSTANCE
from roost.store.change_log import USAGE
from roost.store.column_types import as_json_text
from roost.store.error_mapping import database_errors
from roost.store.statement_batch import Statement

MOST_CLASSES = 4
"""Of resources. The statement says so, or PostgreSQL would expect a hundred and read whole tables for them."""

_CLAIM = text(
    f"""
    WITH asked AS (
        SELECT key AS resource_class, CAST(value AS bigint) AS amount
        FROM json_each_text(CAST(:amounts AS json)) LIMIT {MOST_CLASSES}
    ), node AS (
        UPDATE compute_nodes SET
            free_ram_mb = free_ram_mb - :memory_mb, memory_mb_used = memory_mb_used + :memory_mb,
            free_disk_gb = free_disk_gb - :disk_gb, local_gb_used = local_gb_used + :disk_gb,
            vcpus_used = vcpus_used + :vcpus, running_vms = running_vms + 1
        WHERE uuid = :node_uuid AND lower(coalesce(hypervisor_type, '')) <> 'ironic' RETURNING id
    ), taken AS (
        UPDATE inventories SET used = used + amount FROM asked, node
        WHERE node_id = node.id AND inventories.resource_class = asked.resource_class
            AND used + amount <= (total - reserved) * allocation_ratio
            AND amount BETWEEN min_unit AND coalesce(max_unit, total) AND amount % step_size = 0
        RETURNING 1
    ), consumer AS (
        INSERT INTO consumers (uuid, kind, project_id, user_id, details, created_at)
        SELECT :uuid, :kind, :project_id, :user_id, :details, CAST(:now AS timestamp) FROM node RETURNING uuid
    ), held AS (
        INSERT INTO allocations (consumer_uuid, node_id, resource_class, used)
        SELECT consumer.uuid, node.id, resource_class, amount FROM consumer, node, asked
    ), told AS (
        INSERT INTO changes (subject, subject_key)
        SELECT :subject, node.id || '/' || consumer.uuid FROM node, consumer
    )
    SELECT 1 / CASE WHEN (SELECT count(*) FROM taken) = :classes THEN 1 ELSE 0 END
    """  # noqa: S608 - a number of ours
)


class OneStatementClaim:
    """Makes such claims. For one thread at a time."""

    def __init__(self, engine: Engine) -> None:
        from roost.store.libpq_pipeline import (
            PersistentPipeline,  # only on PostgreSQL: the driver takes a while to load
        )

        self._engine = engine
        self._line = PersistentPipeline(engine)

    def claim(self, claim: Claim, now: datetime.datetime) -> bool:
        """Whether the claim is made; where not, everything is as before."""
        amounts = {name: amount for name, amount in claim.amounts.items() if amount}
        if claim.group is not None or not 0 < len(amounts) <= MOST_CLASSES:
            return False
        with database_errors(self._engine):
            try:
                self._line.send(Statement(_CLAIM, _values(claim, amounts, now)))
            except (DataError, IntegrityError):
                return False
        return True


def _values(claim: Claim, amounts: dict[str, int], now: datetime.datetime) -> dict[str, Any]:
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
        "now": now.astimezone(datetime.UTC).replace(tzinfo=None).isoformat(" "),
        "subject": USAGE,
    }
