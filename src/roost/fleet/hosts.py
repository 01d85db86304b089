# SPDX-License-Identifier: Apache-2.0
"""The `hosts` of a fleet file as runs of equal hosts, each in the aggregates that name it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from roost.errors import FieldError, nearest
from roost.fleet.fields import HOST_FIELDS
from roost.fleet.names import MAX_HOSTS, expand_name
from roost.hosts import HostRecord
from roost.hosts.table import Run
from roost.model import Aggregate, checks

_ONE_HOST_ONLY = ("uuid", "instances")


class HostNames:
    """All (host, node) pairs of a file, each once."""

    def __init__(self) -> None:
        self.pairs: set[tuple[str, str]] = set()
        self.hosts: dict[str, None] = {}

    def add(self, pairs: list[tuple[str, str]], field: str) -> None:
        """Note the names; a pair that is there already is an error."""
        for pair in pairs:
            if pair in self.pairs:
                raise FieldError(field, f"host {pair[0]}, node {pair[1]} is there twice", "give each pair once")
            self.pairs.add(pair)
            self.hosts[pair[0]] = None
        if len(self.pairs) > MAX_HOSTS:
            raise FieldError(field, f"more than {MAX_HOSTS} hosts")


def take_runs(entries: Any, aggregates: Mapping[str, tuple[Aggregate, ...]], names: HostNames) -> Iterator[Run]:
    """Records with the names they stand for. `aggregates`: host name -> those that list it."""
    if not isinstance(entries, list):
        raise FieldError("hosts", f"{checks.shown(entries)} is not a list", "write - host: NAME entries")
    for at, entry in enumerate(entries):
        where = f"hosts[{at}]"
        try:
            values = _take_values(entry)
            pairs = _expand(values)
        except FieldError as error:
            raise error.under(where) from None
        names.add(pairs, f"{where}.host")
        own = values.pop("aggregates", ())
        for more, group in groupby(pairs, key=lambda pair: aggregates.get(pair[0], ())):
            yield HostRecord(**values, aggregates=own + more), list(group)


def _take_values(entry: Any) -> dict[str, Any]:
    if not isinstance(entry, dict):
        raise FieldError("", f"{checks.shown(entry)} is not a host", "write host: NAME")
    if "host" not in entry:
        raise FieldError("host", "is missing", "every host has a name")
    values = {}
    for name, value in entry.items():
        field = HOST_FIELDS.get(name)
        if field is None:
            raise FieldError("", f"unknown field {checks.shown(name)}", nearest(str(name), HOST_FIELDS))
        values[name] = field.take(value, name)
    _check_sums(values)
    is_dict = values.pop("cpu_info_is_dict", False)
    if isinstance(values.get("cpu_info"), Mapping) and not is_dict:
        # An agent reports it as JSON text, and that is what filters find.
        values["cpu_info"] = json.dumps(dict(values["cpu_info"]))
    return values


def _check_sums(values: Mapping[str, Any]) -> None:
    for reserved, total in (
        ("reserved_vcpus", "vcpus_total"),
        ("reserved_ram_mb", "total_usable_ram_mb"),
        ("reserved_disk_gb", "total_usable_disk_gb"),
    ):
        if values.get(reserved, 0) > values.get(total, 0):
            raise FieldError(reserved, f"{values[reserved]} is more than {total} ({values.get(total, 0)})")


def _expand(values: dict[str, Any]) -> list[tuple[str, str]]:
    """The (host, node) pairs that an entry stands for."""
    hosts = expand_name(values["host"], "host")
    nodes = expand_name(values["node"], "node") if "node" in values else hosts
    if len(hosts) == 1:
        hosts = hosts * len(nodes)
    if len(nodes) != len(hosts):
        raise FieldError("node", f"stands for {len(nodes)} names and host for {len(hosts)}", "make them equal")
    if len(hosts) > 1:
        for name in _ONE_HOST_ONLY:
            if values.get(name):
                raise FieldError(
                    name, f"cannot be the same on {len(hosts)} hosts", "give that host an entry of its own"
                )
    return list(zip(hosts, nodes, strict=True))
