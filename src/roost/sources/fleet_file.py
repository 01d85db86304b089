# SPDX-License-Identifier: Apache-2.0
"""Fleets: the host table, and the flavors, images and server groups that requests name, parsed from a fleet file.

Names of hosts are patterns: `node-[001-200]` expands to node-001, ..., node-200. Equal hosts are grouped into runs
that share their values, and get the aggregates that name them.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
import json
import math
import re
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby, islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from roost.errors import FieldError, FleetError, UnknownName, nearest
from roost.hosts import HostRecord, HostTable
from roost.hosts.record import Pair
from roost.hosts.table import Run
from roost.model import Aggregate, Flavor, Image, ServerGroup
from roost.model.fields import IDENTIFIER, NAME, refuse_unknown
from roost.model.group import split_values
from roost.model.kinds import shown
from roost.model.uuids import canonical_uuid
from roost.options.files import LocatedSections
from roost.sources.documents import gc_paused, line_of_error, parse_document, place_in, place_of_option, read_text
from roost.sources.fields import AGGREGATES, ENTRIES, HOST, NAMED, OPTIONS, SECTIONS

Named = TypeVar("Named", Flavor, Image, ServerGroup)


@dataclasses.dataclass(frozen=True)
class Fleet:
    """A fleet: the host table, flavors, images and server groups by name, and options by section."""

    table: HostTable
    flavors: Mapping[str, Flavor] = dataclasses.field(default_factory=dict)
    images: Mapping[str, Image] = dataclasses.field(default_factory=dict)
    server_groups: Mapping[str, ServerGroup] = dataclasses.field(default_factory=dict)
    options: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    runs: tuple[Run, ...] = ()
    """Host records with the names of equal hosts, if loaded with `keeps_records`; the table does not need them."""
    options_win: bool = False
    """Whether the options win over those of config files: those of a snapshot are facts, those of a file are not."""

    @classmethod
    def load(cls, source: str | Path | Mapping[str, Any], keeps_records: bool = False) -> Fleet:
        """The fleet of a YAML or JSON file, or of a dict with its content. Errors name file, line and field.

        `keeps_records`: also keep the host records in `runs`, for the import into the database.
        """
        if isinstance(source, Mapping):
            return _parse_fleet(source, keeps_records=keeps_records)
        return cls.parse(read_text(Path(source)), Path(source), keeps_records)

    @classmethod
    def parse(cls, text: str, path: Path, keeps_records: bool = False) -> Fleet:
        """The fleet in the text of a file. Errors name the path, line and field; the rest is as in `load`."""
        try:
            with gc_paused():
                document, lines = parse_document(text, path)
                fleet = _parse_fleet({} if document is None else document, True, keeps_records)
        except FieldError as error:
            place = place_in(path, line_of_error(text, error))
            raise FleetError(f"{place}: {error.message}", error.hint) from None
        return dataclasses.replace(
            fleet, options=LocatedSections(fleet.options, partial(place_of_option, path, lines))
        )

    def table_at(self, service_down_time: int) -> HostTable:
        """A copy of the table. Services without a heartbeat for longer than `service_down_time` seconds are down."""
        table = self.table.copy()
        table.writable_column("is_up")[:] = table.per_value("service", lambda each: each.is_up(service_down_time))
        return table

    def flavor(self, name: str) -> Flavor:
        """The flavor with this name or id; UnknownName if there is none."""
        return _look_up("flavor", name, self.flavors)

    def image(self, name: str) -> Image:
        """The image with this name or id; UnknownName if there is none."""
        return _look_up("image", name, self.images)

    def server_group(self, name: str) -> ServerGroup:
        """The server group with this name or uuid; UnknownName if there is none."""
        return _look_up("server group", name, self.server_groups)

    def zones(self) -> set[str]:
        """All availability zones that aggregates define."""
        return split_values(self.table.known_aggregates, "availability_zone")


def _look_up(kind: str, name: str, known: Mapping[str, Named]) -> Named:
    if name in known:
        return known[name]
    names = name, canonical_uuid(name)
    for each in known.values():
        if str(getattr(each, "uuid", None) or getattr(each, "id", None)) in names:
            return each
    raise UnknownName(f"unknown {kind} {name!r}", nearest(name, known))


def _parse_fleet(document: Any, uses_up: bool = False, keeps_records: bool = False) -> Fleet:
    """The fleet in a document. `uses_up`: the document's hosts are consumed while parsing, to save memory."""
    if not isinstance(document, Mapping):
        raise FieldError("", f"{shown(document)} is not a fleet", "write hosts: and a list below it")
    refuse_unknown(document, SECTIONS)
    entries = ENTRIES.strict(document.get("hosts"), "hosts") or []
    aggregates = parse_aggregates(document.get("aggregates"), count_hosts(entries))
    hosts = parse_hosts(entries, by_host(aggregates), uses_up=uses_up)
    table = HostTable.of_runs(hosts.runs)
    if aggregates:
        check_hosts_exist(aggregates, {host for host, _ in hosts.pairs})
    table.known_aggregates = tuple(dict.fromkeys((*table.known_aggregates, *aggregates)))
    named = _parse_named(document)
    table.flavors = named["flavors"]
    return Fleet(
        table,
        **named,
        options=OPTIONS.strict(document.get("options"), "options"),
        runs=tuple(hosts.runs) if keeps_records else (),
    )


def _parse_named(document: Mapping[str, Any]) -> dict[str, Any]:
    """Section -> name -> record, for flavors, images and groups. A record without a name is named by uuid or id."""
    found: dict[str, dict[str, Any]] = {}
    for section, kind in NAMED.items():
        found[section] = by_name = {}
        for at, record in enumerate(kind.strict(document.get(section), section)):
            held = vars(record)
            IDENTIFIER.strict(held.get("id"), f"{section}[{at}].id")
            name = record.name or str(held.get("uuid") or held.get("id") or "")
            NAME.strict(name, f"{section}[{at}].name")
            if name in by_name:
                raise FieldError(f"{section}[{at}].name", f"{name} is there twice", "give each its own name")
            by_name[name] = record
    return found


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


MAX_MEMBERS = 10_000_000
"""Limit of the members of all aggregates in total: a few short patterns could expand to billions."""
_MOST_SUGGESTIONS_COMPARED = 2000


def parse_aggregates(section: Any, fleet_size: int) -> list[Aggregate]:
    """All aggregates, with expanded host names; aggregates without an id are numbered from 1.

    `fleet_size`: number of hosts in the fleet; a pattern that expands to more is a FieldError.
    """
    found: dict[str, Aggregate] = {}
    members = 0
    for at, aggregate in enumerate(AGGREGATES.strict(section, "aggregates")):
        where = f"aggregates[{at}]"
        if aggregate.name in found:
            raise FieldError(f"{where}.name", f"aggregate {aggregate.name} is there twice", "give each its own name")
        hosts: list[str] = []
        for pattern in aggregate.hosts:
            hosts += expand_name(pattern, f"{where}.hosts", fleet_size)
            if members + len(hosts) > MAX_MEMBERS:
                raise FieldError(f"{where}.hosts", f"aggregates name more than {MAX_MEMBERS} hosts in all")
        members += len(hosts)
        number = at + 1 if aggregate.id is None else aggregate.id
        found[aggregate.name] = expanded = copy.copy(aggregate)
        vars(expanded).update(hosts=tuple(hosts), id=number)  # `replace` would validate all names again
    return list(found.values())


Membership = tuple[str, tuple[Aggregate, ...]]
"""A host name (the string object that the aggregates hold, to save memory), and the aggregates that name it."""


def by_host(aggregates: Sequence[Aggregate]) -> dict[str, Membership]:
    """Host name -> its membership. Hosts in the same aggregates share one tuple."""
    found: dict[str, Membership] = {}
    shared: dict[tuple[int, ...], tuple[Aggregate, ...]] = {}
    for aggregate in aggregates:
        for host in dict.fromkeys(aggregate.hosts):
            name, others = found.get(host, (host, ()))
            joined = (*others, aggregate)
            found[host] = name, shared.setdefault(tuple(map(id, joined)), joined)
    return found


def check_hosts_exist(aggregates: Sequence[Aggregate], hosts: Collection[str]) -> None:
    """Raise FieldError for the first host that an aggregate names and the fleet does not have."""
    for at, aggregate in enumerate(aggregates):
        for host in aggregate.hosts:
            if host not in hosts:
                candidates = islice(
                    (name for name in hosts if abs(len(name) - len(host)) < 3), _MOST_SUGGESTIONS_COMPARED
                )
                hint = nearest(host, candidates)
                remedy = hint if "did you mean" in hint else "list it under hosts, or take it out here"
                raise FieldError(f"aggregates[{at}].hosts", f"there is no host {host}", remedy)


MAX_HOSTS = 5_000_000

_RANGE = re.compile(r"\[([0-9]{1,18})-([0-9]{1,18})\]")


def expand_name(name: str, field: str, most: int = MAX_HOSTS) -> Iterator[str]:
    """The names that a pattern expands to, in order, as an iterator; a plain name expands to itself."""
    if "[" not in name and "]" not in name:
        return iter((name,))
    pieces = _RANGE.split(name)
    literals, bounds = pieces[0::3], list(zip(pieces[1::3], pieces[2::3], strict=True))
    if any(bracket in literal for literal in literals for bracket in "[]"):
        raise FieldError(field, f"{shown(name)} has a bracket that is no range", "write a range as [001-200]")
    for first, last in bounds:
        if int(last) < int(first):
            problem = f"the range [{first}-{last}] in {shown(name)} runs backwards"
            raise FieldError(field, problem, f"write [{last}-{first}]")
    ranges = [range(int(first), int(last) + 1) for first, last in bounds]
    total = count_names(name)
    if total > most:
        hint = f"at most {MAX_HOSTS}" if most == MAX_HOSTS else f"the fleet has {most}"
        raise FieldError(field, f"{shown(name)} stands for {total} hosts", hint)
    *outer, (first, _) = bounds
    *outer_ranges, inner = ranges
    heads = (
        literals[0] + "".join(f"{number:0{len(low)}d}{rest}" for number, (low, _), rest in parts)
        for parts in (zip(numbers, outer, literals[1:], strict=False) for numbers in itertools.product(*outer_ranges))
    )
    return (f"{head}{number:0{len(first)}d}{literals[-1]}" for head in heads for number in inner)


def count_names(name: str) -> int:
    """The number of names that a pattern expands to."""
    return math.prod(max(0, int(last) - int(first) + 1) for first, last in _RANGE.findall(name))
