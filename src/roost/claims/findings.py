# SPDX-License-Identifier: Apache-2.0
"""A finding of the ledger's audit."""

from __future__ import annotations

import datetime
from typing import Any, NamedTuple


class Finding(NamedTuple):
    """An inconsistency of the ledger."""

    kind: str
    """One of the kinds in docs/explanation/the-ledger.md."""
    subject: str
    """Uuid of the consumer, server or group, or id of the node or group."""
    host: str
    detail: str
    remedy: str
    """What `heal` does about it; empty if an operator has to decide."""
    key: tuple[Any, ...] = ()
    """The key columns of the row to repair."""
    project_id: str | None = None
    """Project of the consumer, where the finding is about one."""
    created_at: datetime.datetime | None = None
    """Since when the consumer has been there, where the finding is about one."""
