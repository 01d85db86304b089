# SPDX-License-Identifier: Apache-2.0
"""Pages of lists: how clients ask for one, and the link to the next one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl, urlencode

from fastapi import Query

from roost.api.call import Call
from roost.api.compute.body_types import LARGEST_NUMBER

Limit = Annotated[int | None, Query(ge=0, le=LARGEST_NUMBER, description="entries at most")]
Marker = Annotated[str | None, Query(max_length=255, description="id of the last entry of the page before")]
Direction = Literal["asc", "desc"]


def page_size(call: Call, limit: int | None) -> int:
    """How many entries a page has at most: as many as were asked for, if no more than [api] max_limit."""
    most = call.parts.options.max_limit
    return most if limit is None else min(limit, most)


def next_links(call: Call, collection: str, ids: Sequence[str], size: int) -> dict[str, Any]:
    """`<collection>_links` with the address of the next page; empty if the page is not full, so it is the last one.

    `ids`: of the entries of this page, as markers name them.
    """
    if not ids or len(ids) < size:
        return {}
    path, _, query = call.url.partition("?")
    kept = [(name, value) for name, value in parse_qsl(query, keep_blank_values=True) if name != "marker"]
    address = call.link(f"{path}?{urlencode([*kept, ('marker', ids[-1])])}")
    return {f"{collection}_links": [{"rel": "next", "href": address}]}
