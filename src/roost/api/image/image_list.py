# SPDX-License-Identifier: Apache-2.0
"""The list of images: /image/v2/images, in the order, by the filters and in the pages that clients ask for."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl, urlencode, urlsplit

from fastapi import Query, Response
from pydantic import BaseModel, ConfigDict, Field

from roost.api.call import Call, CurrentCall, answer
from roost.api.image.images import Visibility, describe_image
from roost.api.microversions import parse_time
from roost.errors import BadInput
from roost.records.image_catalogue import ImageFilters, Range, list_images
from roost.store.pages import Page, SortBy

DEFAULT_LIMIT = 25
"""Images on a page, where the client does not say; Glance's."""
IN = "in:"
SORT_KEYS = (
    *("created_at", "updated_at", "name", "status", "size", "id", "disk_format", "container_format"),
    *("min_ram", "min_disk", "visibility", "owner"),
)
ASCENDING, DESCENDING = "asc", "desc"
_Text = Annotated[str, Field(max_length=4096)]
_Number = Annotated[int, Field(ge=0, lt=2**63 - 1)]


class ImageQuery(BaseModel):
    """Which images are listed, and in which order. Any further key is a property, with the value that it has."""

    model_config = ConfigDict(extra="allow")
    limit: Annotated[int | None, Field(ge=0)] = None
    marker: _Text | None = None
    sort_key: list[_Text] = Field(default=["created_at"], description=f"some of {', '.join(SORT_KEYS)}")
    sort_dir: list[_Text] = Field(default=[DESCENDING], description="asc or desc: one for all keys, or one for each")
    sort: _Text | None = Field(None, description="in place of the two: KEY:asc,KEY:desc,...")
    id: _Text | None = Field(None, description="or in:ID,ID,...")
    name: _Text | None = Field(None, description="or in:NAME,NAME,...")
    status: _Text | None = Field(None, description="or in:STATUS,STATUS,...")
    disk_format: _Text | None = Field(None, description="or in:FORMAT,FORMAT,...")
    container_format: _Text | None = Field(None, description="or in:FORMAT,FORMAT,...")
    owner: _Text | None = None
    visibility: Visibility | Literal["all"] = "all"
    member_status: Literal["accepted", "pending", "rejected", "all"] = "accepted"
    size_min: _Number | None = None
    size_max: _Number | None = None
    min_ram: _Number | None = None
    min_disk: _Number | None = None
    created_at: _Text | None = Field(None, description="TIME, or gt:, gte:, eq:, neq:, lte: or lt:TIME")
    updated_at: _Text | None = Field(None, description="as created_at")
    protected: bool = False
    os_hidden: bool = False
    tag: list[_Text] = []
    checksum: _Text | None = None
    os_hash_algo: _Text | None = None
    os_hash_value: _Text | None = None

    @property
    def is_of_none(self) -> bool:
        """Whether it asks for what no image here has."""
        of_data = (self.checksum, self.os_hash_algo, self.os_hash_value)
        return bool(self.protected or self.os_hidden or self.tag or any(each is not None for each in of_data))


def list_page(call: CurrentCall, query: Annotated[ImageQuery, Query()]) -> Response:
    """The images that the caller may see: its project's own, and public ones."""
    size = min(DEFAULT_LIMIT if query.limit is None else query.limit, call.parts.options.max_limit)
    page = Page(size, query.marker or None, _order_of(query))
    wanted = _filters_of(call, query)
    found = [] if query.is_of_none else list_images(call.parts.engine, wanted, page)
    record = {
        "images": [describe_image(each) for each in found],
        "schema": "/v2/schemas/images",
        "first": _address(call),
    }
    if size and len(found) == size:
        record["next"] = _address(call, found[-1].id)
    return answer(record)


def _address(call: Call, marker: str | None = None) -> str:
    """The address of the page after the marker, with everything else that the client asked for."""
    given = [pair for pair in parse_qsl(urlsplit(call.url).query, keep_blank_values=True) if pair[0] != "marker"]
    query = urlencode([*given, *([] if marker is None else [("marker", marker)])])
    return f"/v2/images?{query}" if query else "/v2/images"


# --- order -------------------------------------------------------------------------------------------


def _order_of(query: ImageQuery) -> tuple[SortBy, ...]:
    """By what to sort; BadInput for an unknown key or direction, and for two spellings at once."""
    pairs = list(_pairs_of(query))
    if len(pairs) > len(SORT_KEYS):
        raise BadInput(f"sort: there are {len(SORT_KEYS)} keys, and {len(pairs)} are given")
    return tuple(SortBy(_known(key), _is_descending(direction)) for key, direction in pairs)


def _pairs_of(query: ImageQuery) -> Iterator[tuple[str, str]]:
    if query.sort is not None:
        if query.model_fields_set & {"sort_key", "sort_dir"}:
            raise BadInput("sort cannot be combined with sort_key and sort_dir", "give one of the two")
        for each in query.sort.split(","):
            key, _, direction = each.partition(":")
            yield key.strip(), direction.strip() or DESCENDING
        return
    directions = query.sort_dir * len(query.sort_key) if len(query.sort_dir) == 1 else query.sort_dir
    if len(directions) != len(query.sort_key):
        raise BadInput(f"{len(query.sort_key)} sort_key and {len(directions)} sort_dir", "give one sort_dir for each")
    yield from zip(query.sort_key, directions, strict=True)


def _known(key: str) -> str:
    if key not in SORT_KEYS:
        raise BadInput(f"sort_key: images cannot be sorted by {key[:60]!r}", f"one of {', '.join(SORT_KEYS)}")
    return key


def _is_descending(direction: str) -> bool:
    if direction not in (ASCENDING, DESCENDING):
        raise BadInput(f"sort_dir: {direction[:60]!r} is no direction", "give asc or desc")
    return direction == DESCENDING


# --- filters -----------------------------------------------------------------------------------------


def _filters_of(call: Call, query: ImageQuery) -> ImageFilters:
    several = ("id", "name", "status", "disk_format", "container_format")
    values: dict[str, list[Any]] = {
        name: _texts_of(given, name) for name in several if (given := getattr(query, name)) is not None
    }
    for name in ("owner", "min_ram", "min_disk"):
        if (given := getattr(query, name)) is not None:
            values[name] = [given]
    if query.visibility != "all":
        values["visibility"] = [query.visibility]
    project = None if call.is_admin else call.caller.project_id
    return ImageFilters(values, _ranges_of(query), _properties_of(query.model_extra or {}), project)


def _texts_of(given: str, name: str) -> list[str]:
    """One text, or those after in:, of which one with a comma stands in quotation marks."""
    if not given.startswith(IN):
        return [given]
    try:
        return next(csv.reader([given.removeprefix(IN)], strict=True), [""])
    except csv.Error:
        raise BadInput(f"{name}: {given[:60]!r} is no list", 'separate values by commas, as in in:a,"b,c"') from None


def _ranges_of(query: ImageQuery) -> dict[str, Range]:
    found = {
        name: _time_range(given, name)
        for name in ("created_at", "updated_at")
        if (given := getattr(query, name)) is not None
    }
    if query.size_min is not None or query.size_max is not None:
        found["size"] = Range(query.size_min, None if query.size_max is None else query.size_max + 1)
    return found


def _time_range(given: str, name: str) -> Range:
    """The times that are meant. They are compared to the second, for clients are shown no more of them."""
    operator, colon, text = given.partition(":")
    if not colon or operator[:1].isdigit():
        operator, text = "eq", given
    began = parse_time(text, name).replace(microsecond=0)
    try:
        ended = began + timedelta(seconds=1)
    except OverflowError:
        raise BadInput(f"{name}: {text[:60]!r} is out of range") from None
    ranges = {
        "eq": Range(began, ended),
        "neq": Range(began, ended, is_excluded=True),
        "gt": Range(least=ended),
        "gte": Range(least=began),
        "lt": Range(below=began),
        "lte": Range(below=ended),
    }
    if operator not in ranges:
        raise BadInput(f"{name}: {operator[:60]!r} is no operator", f"one of {', '.join(ranges)}")
    return ranges[operator]


def _properties_of(given: Mapping[str, Any]) -> dict[str, str]:
    """The properties that images must have; a key that is given twice must have one value."""
    found: dict[str, str] = {}
    for name, value in given.items():
        if not isinstance(value, str):
            raise BadInput(f"{name[:60]}: a filter has one value")
        found[name] = value
    return found
