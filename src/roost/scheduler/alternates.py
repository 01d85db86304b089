# SPDX-License-Identifier: Apache-2.0
"""Alternates: the next best hosts of the same nova cell, to try if a build on the chosen host fails."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from roost.scheduler.search import HostSearch, Order, Placed, Request


def alternates_of_one(request: Request, search: HostSearch, order: Order) -> Sequence[int]:
    """Alternates for the only instance of a request, which goes to the first host of `order`."""
    if len(request.table.encoded["cell"].values) == 1:
        return [row for _, row in order[1 : request.alternates + 1]]
    row = order[0][1]
    return _next_of_cell(request, search, row, {row})


def with_alternates(request: Request, search: HostSearch, placed: Sequence[Placed]) -> list[Placed]:
    """The instances of a request with their alternates; `search` has ranked the hosts after the last one."""
    chosen = {each.row for each in placed}
    return [each._replace(alternates=_next_of_cell(request, search, each.row, chosen)) for each in placed]


def _next_of_cell(request: Request, search: HostSearch, row: int, chosen: set[int]) -> list[int]:
    """The next best rows of the same nova cell as this row, without the chosen ones."""
    cells = request.table.encoded["cell"].codes
    others = (each for each in search.next_best() if each not in chosen and cells[each] == cells[row])
    return list(islice(others, request.alternates))
