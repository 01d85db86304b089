# SPDX-License-Identifier: Apache-2.0
"""Overcommit limits that filters set on the chosen hosts: they travel with the request to the host that builds it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from roost.filters.base import Filter, applies_to_rebuild
from roost.hosts import Hosts, HostTable
from roost.model.request import RequestSpec
from roost.scheduler.checks import is_forced
from roost.scheduler.search import HostSearch


class Ceilings:
    """The filters of a pipeline that set limits."""

    def __init__(self, filters: Iterable[Filter]) -> None:
        self._filters = [rule for rule in filters if type(rule).ceilings is not Filter.ceilings]

    def limits(
        self, table: HostTable, search: HostSearch, rows: Sequence[int], spec: RequestSpec
    ) -> list[dict[str, Any]]:
        """The limits on each of these rows, by nova's names; a forced request, which skips all filters, has none."""
        written = [search.written_limits(row) for row in rows]
        filters = [rule for rule in self._filters if rule.applies_to(spec)]
        if spec.is_rebuild:
            filters = [rule for rule in filters if applies_to_rebuild(rule)]
        if not filters or is_forced(spec):
            return written
        hosts = Hosts(table, np.array(rows, dtype=np.intp), {})
        ceilings = {name: values.tolist() for rule in filters for name, values in rule.ceilings(hosts, spec).items()}
        return [
            {name: values[at] for name, values in ceilings.items() if values[at] == values[at]} | own
            for at, own in enumerate(written)
        ]
