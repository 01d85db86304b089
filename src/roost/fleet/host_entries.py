# SPDX-License-Identifier: Apache-2.0
"""The `hosts` of a fleet file as runs of equal hosts, each in the aggregates that name it."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

from roost.errors import FieldError, nearest
from roost.fleet.aggregate_entries import Membership
from roost.fleet.fields import HOST_FIELDS
from roost.fleet.name_ranges import MAX_HOSTS, count_names, expand_name
from roost.hosts import HostRecord
from roost.hosts.table import Run
from roost.model import Aggregate, checks

Pair = tuple[str, str]
"""Host and node."""

_ONE_HOST_ONLY = ("uuid", "instances")
_NAMES = ("host", "node")
_KEPT_VALUES = 10_000
_TOTAL_OF = {
    "reserved_vcpus": "vcpus_total",
    "reserved_ram_mb": "total_usable_ram_mb",
    "reserved_disk_gb": "total_usable_disk_gb",
}


_NOWHERE: Membership = ("", ())


class HostNames:
    """All (host, node) pairs of a file, each once."""

    def __init__(self) -> None:
        self.pairs: set[Pair] = set()

    def add(self, pairs: list[Pair], field: str) -> None:
        """Note the names; a pair that is there already is an error."""
        for pair in pairs:
            if pair in self.pairs:
                raise FieldError(field, f"host {pair[0]}, node {pair[1]} is there twice", "give each pair once")
            self.pairs.add(pair)
        if len(self.pairs) > MAX_HOSTS:
            raise FieldError(field, f"more than {MAX_HOSTS} hosts")


class _Runs:
    """Hosts that are equal in all but their names share one record, wherever they stand in the file."""

    def __init__(self) -> None:
        self._runs: dict[Hashable, Run] = {}

    def add(self, values: dict[str, Any], aggregates: tuple[Aggregate, ...], pairs: list[Pair]) -> None:
        """One more entry: these hosts, all with these values."""
        key = self._key(values, aggregates)
        run = self._runs.get(key)
        if run is None:
            self._runs[key] = HostRecord(**values, aggregates=aggregates), pairs
        else:
            run[1].extend(pairs)

    def _key(self, values: dict[str, Any], aggregates: tuple[Aggregate, ...]) -> Hashable:
        if not values.keys().isdisjoint(_ONE_HOST_ONLY):
            return len(self._runs)
        rest = values.copy()
        for name in _NAMES:
            rest.pop(name, None)
        key = (*rest, *rest.values(), *map(id, aggregates))
        try:
            hash(key)
        except TypeError:  # free-form mappings are not compared
            return len(self._runs)
        return key

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs.values())


def count_hosts(entries: Iterable[Any]) -> int:
    """How many hosts these entries stand for, as far as one can tell before they are looked at."""
    names = (entry.get("host") for entry in entries if isinstance(entry, dict))
    return sum(count_names(name) if isinstance(name, str) and "[" in name else 1 for name in names)


def take_runs(entries: Iterable[Any], members: Mapping[str, Membership], names: HostNames) -> Iterable[Run]:
    """Records with the names they stand for. `members`: host name -> its membership in aggregates."""
    runs, fields = _Runs(), _Fields()
    for at, entry in enumerate(entries):
        try:
            values = _take_values(entry, fields)
            pairs = _expand(values, members)
        except FieldError as error:
            raise error.under(f"hosts[{at}]") from None
        names.add(pairs, f"hosts[{at}].host")
        own = values.pop("aggregates", ())
        for more, group in groupby(pairs, key=lambda pair: members.get(pair[0], _NOWHERE)[1]):
            runs.add(values, own + more, list(group))
    return runs


class _Fields:
    """Takes the fields of host after host. What many of them share is checked once, and kept once."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], Any] = {}

    def take(self, name: str, value: Any) -> Any:
        field = HOST_FIELDS.get(name)
        if field is None:
            raise FieldError("", f"unknown field {checks.shown(name)}", nearest(str(name), HOST_FIELDS))
        if not isinstance(value, (list, dict)) or name == "instances":
            return field.take(value, name)
        try:
            key = name, repr(value)
        except (RecursionError, ValueError):  # too deep, or a number too long: the field says so
            return field.take(value, name)
        if key not in self._seen:
            if len(self._seen) > _KEPT_VALUES:
                self._seen.clear()
            self._seen[key] = field.take(value, name)
        return self._seen[key]


def _take_values(entry: Any, fields: _Fields) -> dict[str, Any]:
    if not isinstance(entry, dict):
        raise FieldError("", f"{checks.shown(entry)} is not a host", "write host: NAME")
    if "host" not in entry:
        raise FieldError("host", "is missing", "every host has a name")
    values = {name: fields.take(name, value) for name, value in entry.items()}
    for reserved in _TOTAL_OF.keys() & values.keys():
        total = values.get(_TOTAL_OF[reserved], 0)
        if values[reserved] > total:
            raise FieldError(reserved, f"{values[reserved]} is more than {_TOTAL_OF[reserved]} ({total})")
    is_dict = values.pop("cpu_info_is_dict", False)
    if isinstance(values.get("cpu_info"), Mapping) and not is_dict:
        # An agent reports it as JSON text, and that is what filters find.
        values["cpu_info"] = json.dumps(dict(values["cpu_info"]))
    return values


def _expand(values: dict[str, Any], members: Mapping[str, Membership]) -> list[Pair]:
    """The (host, node) pairs that an entry stands for.

    A host's name is the object that its aggregates hold already: at 100,000 hosts a second copy of each counts.
    """
    hosts = [members.get(host, (host,))[0] for host in expand_name(values["host"], "host")]
    nodes = list(expand_name(values["node"], "node")) if "node" in values else hosts
    if len(hosts) == 1:
        hosts = hosts * len(nodes)
    if len(nodes) != len(hosts):
        raise FieldError("node", f"stands for {len(nodes)} names and host for {len(hosts)}", "make them equal")
    if len(hosts) > 1:
        for name in _ONE_HOST_ONLY:
            if values.get(name):
                hint = "give that host an entry of its own"
                raise FieldError(name, f"cannot be the same on {len(hosts)} hosts", hint)
    return list(zip(hosts, nodes, strict=True))
