# SPDX-License-Identifier: Apache-2.0
"""Options of the record of decisions: whether there is one, and how long it is kept."""

from __future__ import annotations

from dataclasses import dataclass

from roost.options.declare import option

GROUP = "roost"


@dataclass(frozen=True)
class DecisionOptions:
    """What schedulers record of their decisions, and for how long. Whatever is exceeded first counts."""

    record_decisions: bool = option(
        True,
        group=GROUP,
        reloads=False,
        help="keep each decision in the database, with what it was made from",
    )
    decisions_kept: int = option(
        100_000, min=0, group=GROUP, help="decisions that placed something: how many are kept"
    )
    decision_retention_hours: int = option(
        72, min=0, group=GROUP, help="decisions that placed something: how long they are kept"
    )
    failed_decisions_kept: int = option(
        100_000, min=0, group=GROUP, help="decisions that found no host: how many are kept"
    )
    failed_decision_retention_hours: int = option(
        336, min=0, group=GROUP, help="decisions that found no host: how long they are kept"
    )
    decision_state_retention_hours: int = option(
        24,
        min=0,
        group=GROUP,
        help="how long the state of all hosts that decisions were made from is kept, for questions about them",
    )
