# SPDX-License-Identifier: Apache-2.0
"""A table of hosts as JSON data, column by column, and back: equal in every value that filters and weighers read."""

from __future__ import annotations

from typing import Any

from roost.decisions.column_codecs import (
    SharedReader,
    SharedWriter,
    codec_of,
    read_aggregates,
    read_instance,
    write_aggregates,
    write_instance,
)
from roost.hosts import HostTable
from roost.hosts.arrays import Array

Image = dict[str, Any]
"""A table as JSON data."""


def image_of(table: HostTable) -> Image:
    """All that decides where a request goes."""
    shared = SharedWriter()
    image = {
        "names": [list(pair) for pair in table.names],
        "uuids": list(table.uuids.items()),
        "numbers": {name: _write_numbers(column) for name, column in table.numbers.items()},
        "encoded": {name: _write_encoded(table, name, shared) for name in table.encoded},
        "known_aggregates": write_aggregates(table.known_aggregates, shared),
        "instances": [
            [row, [write_instance(each, shared) for each in present.values()]]
            for row, present in table.instances.items()
            if present
        ],
        "packs_numa_cells": table.packs_numa_cells,
    }
    return image | {"shared": shared.entries}


def table_of(image: Image) -> HostTable:
    """The table that `image_of` wrote."""
    shared = SharedReader(image["shared"])
    count = len(image["names"])
    instances = ((row, read_instance(each, shared)) for row, instances in image["instances"] for each in instances)
    table = HostTable.of_columns(
        [(host, node) for host, node in image["names"]],
        {name: _read_numbers(data, count) for name, data in image["numbers"].items()},
        {name: _read_encoded(name, data, shared) for name, data in image["encoded"].items()},
        dict(image["uuids"]),
        instances,
    )
    table.known_aggregates = read_aggregates(image["known_aggregates"], shared)
    table.packs_numa_cells = image["packs_numa_cells"]
    return table


def _write_numbers(column: Array) -> Any:
    """A list of all numbers; one number that all hosts have alone."""
    return column[0].item() if len(column) and column.strides == (0,) else column.tolist()


def _read_numbers(data: Any, count: int) -> list[Any]:
    return data if isinstance(data, list) else [data] * count


def _write_encoded(table: HostTable, name: str, shared: SharedWriter) -> Any:
    """The values in use, and for each host the position of its value."""
    column, write = table.encoded[name], codec_of(name).write
    used = column.used()
    position = {code: at for at, code in enumerate(used)}
    return [[write(column.values[code], shared) for code in used], [position[code] for code in column.codes.tolist()]]


def _read_encoded(name: str, data: Any, shared: SharedReader) -> list[Any]:
    """The value of each host; equal ones are one object."""
    values, positions = data
    read = codec_of(name).read
    found = [read(each, shared) for each in values]
    return [found[at] for at in positions]
