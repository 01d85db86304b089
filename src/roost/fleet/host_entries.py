# SPDX-License-Identifier: Apache-2.0
"""Parser of the section `hosts` of a fleet file: groups equal hosts into runs, and adds their aggregates."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from itertools import groupby
from typing import Any, NamedTuple

from roost.errors import FieldError
from roost.fleet.aggregate_entries import Membership
from roost.fleet.fields import HOST
from roost.fleet.name_ranges import MAX_HOSTS, count_names, expand_name
from roost.hosts import HostRecord
from roost.hosts.record import Pair
from roost.hosts.table import Run
from roost.model import Aggregate

_ONE_HOST_ONLY = ("uuid", "instances", "migrations")
_NAMES = ("host", "node")
_TOTAL_OF = {
    "reserved_vcpus": "vcpus_total",
    "reserved_ram_mb": "total_usable_ram_mb",
    "reserved_disk_gb": "total_usable_disk_gb",
}
_NO_AGGREGATES: Membership = ("", ())


class ParsedHosts(NamedTuple):
    """The hosts of a fleet file."""

    runs: list[Run]
    """Host records, each with the (host, node) pairs of all hosts in the file that are otherwise equal."""
    pairs: set[Pair]
    """All (host, node) pairs of the file."""


def count_hosts(entries: Any) -> int:
    """The number of hosts that the entries expand to, estimated before they are parsed."""
    names = (entry.get("host") for entry in entries or () if isinstance(entry, dict))
    return sum(count_names(name) if isinstance(name, str) and "[" in name else 1 for name in names)


def parse_hosts(entries: list[Any], members: Mapping[str, Membership], uses_up: bool = False) -> ParsedHosts:
    """Host records with expanded names. `members`: host name -> its membership in aggregates.

    `uses_up`: entries are removed from the list while parsing, to save memory.
    """
    parsed = HOST.parse_all(entries, "hosts", uses_up)
    parsed.reverse()
    runs: dict[Hashable, Run] = {}
    seen: set[Pair] = set()
    for at in range(len(parsed)):
        values = parsed.pop()
        try:
            _complete(values)
            pairs = _expand(values, members)
        except FieldError as error:
            raise error.under(f"hosts[{at}]") from None
        _record_names(pairs, seen, f"hosts[{at}].host")
        own = values.pop("aggregates", ())
        for more, group in groupby(pairs, key=lambda pair: members.get(pair[0], _NO_AGGREGATES)[1]):
            _add_run(runs, values, own + more, list(group))
    return ParsedHosts([*runs.values()], seen)


def _complete(values: dict[str, Any]) -> None:
    """Check constraints between fields, and convert cpu_info to text unless filters want a mapping."""
    check_reservations(values)
    if "migrations" in values:
        _check_migrations(values)
    is_dict = values.pop("cpu_info_is_dict", False)
    if isinstance(values.get("cpu_info"), Mapping) and not is_dict:
        values["cpu_info"] = json.dumps(dict(values["cpu_info"]))  # agents report JSON text


def check_reservations(values: Mapping[str, Any]) -> None:
    """Raise FieldError where a host would reserve more than it has."""
    for reserved, total in _TOTAL_OF.items():
        if values.get(reserved, 0) > values.get(total, 0):
            raise FieldError(reserved, f"{values[reserved]} is more than {total} ({values.get(total, 0)})")


def _check_migrations(values: dict[str, Any]) -> None:
    """FieldError for a uuid that is listed twice, as a migration or as an instance too."""
    seen = {each.uuid for each in values.get("instances", ())}
    for at, each in enumerate(values["migrations"]):
        if each.uuid in seen:
            problem = f"{each.uuid} is listed twice"
            raise FieldError(f"migrations[{at}].uuid", problem, "a migration has a uuid of its own")
        seen.add(each.uuid)


def _expand(values: dict[str, Any], members: Mapping[str, Membership]) -> list[Pair]:
    """The (host, node) pairs that an entry expands to.

    Host names are the string objects that the aggregates hold: saves memory with 100,000 hosts.
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


def _record_names(pairs: list[Pair], seen: set[Pair], field: str) -> None:
    """Add the pairs to `seen`; FieldError for a pair that is already in it."""
    for pair in pairs:
        if pair in seen:
            raise FieldError(field, f"host {pair[0]}, node {pair[1]} is there twice", "give each pair once")
        seen.add(pair)
    if len(seen) > MAX_HOSTS:
        raise FieldError(field, f"more than {MAX_HOSTS} hosts")


def _add_run(
    runs: dict[Hashable, Run], values: dict[str, Any], aggregates: tuple[Aggregate, ...], pairs: list[Pair]
) -> None:
    """Add hosts to the run with equal values, or start a new run."""
    rest = values.copy()
    for name in _NAMES:
        rest.pop(name, None)
    key: Hashable = (*rest, *rest.values(), *map(id, aggregates))
    try:
        is_alone = not values.keys().isdisjoint(_ONE_HOST_ONLY)
        run = None if is_alone else runs.get(key)
    except TypeError:  # free-form mappings are unhashable: not grouped
        is_alone, run = True, None
    if run is None:
        runs[len(runs) if is_alone else key] = HostRecord(**values, aggregates=aggregates), pairs
    else:
        run[1].extend(pairs)
