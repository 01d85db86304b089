# SPDX-License-Identifier: Apache-2.0
"""A fleet: the table of hosts and everything a request may name."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from roost.config.loader import LocatedSections
from roost.errors import FieldError, FleetError, UnknownName, nearest
from roost.fleet.aggregate_entries import by_host, check_hosts_exist, take_aggregates
from roost.fleet.document import parse_document, read_text
from roost.fleet.field_parsers import take_id
from roost.fleet.gc_pause import gc_paused
from roost.fleet.host_entries import HostNames, count_hosts, take_runs
from roost.fleet.line_numbers import line_of
from roost.hosts import HostTable
from roost.hosts.table import Run
from roost.model import Flavor, Image, ServerGroup, checks
from roost.model.aggregate import split_values
from roost.model.json_records import from_json

_UNKNOWN = re.compile(r"unknown field '([^']*)'")
SECTIONS = ("hosts", "aggregates", "flavors", "images", "server_groups", "options")

Named = TypeVar("Named", Flavor, Image, ServerGroup)


@dataclasses.dataclass(frozen=True)
class Fleet:
    """Hosts, and the flavors, images, groups and options that go with them."""

    table: HostTable
    flavors: Mapping[str, Flavor] = dataclasses.field(default_factory=dict)
    images: Mapping[str, Image] = dataclasses.field(default_factory=dict)
    server_groups: Mapping[str, ServerGroup] = dataclasses.field(default_factory=dict)
    options: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    runs: tuple[Run, ...] = ()
    """What was said of each host, where somebody asked to keep it: the table does not need it any more."""

    @classmethod
    def load(cls, source: str | Path | Mapping[str, Any], keeps_records: bool = False) -> Fleet:
        """From a YAML or JSON file, or from the same as a dict. Errors name file, line and field.

        `keeps_records`: keep what was said of each host too, as the store needs it.
        """
        if isinstance(source, Mapping):
            return _take_fleet(source, keeps_records=keeps_records)
        path = Path(source)
        text = read_text(path)
        try:
            with gc_paused():
                document = parse_document(text, path)
                fleet = _take_fleet({} if document is None else document, True, keeps_records)
        except FieldError as error:
            place = _place(path, line_of(text, _path_to(error)))
            raise FleetError(f"{place}: {error.message}", error.hint) from None
        return dataclasses.replace(fleet, options=LocatedSections(fleet.options, partial(_place_of_option, path)))

    def table_at(self, service_down_time: int) -> HostTable:
        """A table of one's own, in which services silent for longer than that (seconds) are down."""
        table = self.table.copy()
        table.writable_column("is_up")[:] = table.per_value("service", lambda each: each.is_up(service_down_time))
        return table

    def flavor(self, name: str) -> Flavor:
        """The flavor of that name or id."""
        return _look_up("flavor", name, self.flavors)

    def image(self, name: str) -> Image:
        """The image of that name or id."""
        return _look_up("image", name, self.images)

    def server_group(self, name: str) -> ServerGroup:
        """The server group of that name or uuid."""
        return _look_up("server group", name, self.server_groups)

    def zones(self) -> set[str]:
        """Every availability zone that an aggregate names."""
        return split_values(self.table.known_aggregates, "availability_zone")


def _place(path: Path, line: int | None) -> str:
    return f"{path}, line {line}" if line else f"{path}"


def _place_of_option(path: Path, section: str, name: str) -> str:
    """Asked only for an option that turns out to be wrong, long after the file was read."""
    try:
        return _place(path, line_of(read_text(path), f"options.{section}.{name}")) if path.is_file() else f"{path}"
    except FleetError:
        return f"{path}"


def _path_to(error: FieldError) -> str:
    """The field to look for; a key that should not be there is named in the problem."""
    unknown = _UNKNOWN.match(error.problem)
    return f"{error.field}.{unknown[1]}" if unknown else error.field


def _look_up(kind: str, name: str, known: Mapping[str, Named]) -> Named:
    if name in known:
        return known[name]
    for each in known.values():
        if str(getattr(each, "uuid", None) or getattr(each, "id", None)) == name:
            return each
    raise UnknownName(f"unknown {kind} {name!r}", nearest(name, known))


def _take_fleet(document: Any, is_ours: bool = False, keeps_records: bool = False) -> Fleet:
    """`is_ours`: the document may be used up, so that it need not be in memory together with the fleet."""
    if not isinstance(document, Mapping):
        raise FieldError("", f"{checks.shown(document)} is not a fleet", "write hosts: and a list below it")
    checks.known_keys(document, SECTIONS)
    names = HostNames()
    entries = _listed(document, "hosts")
    listed = _listed(document, "aggregates")
    aggregates = take_aggregates(listed, count_hosts(entries)) if listed else []
    runs = take_runs(_drained(entries) if is_ours else entries, by_host(aggregates), names)
    table = HostTable.of_runs(runs)
    if aggregates:
        check_hosts_exist(aggregates, {host for host, _ in names.pairs})
    table.known_aggregates = tuple(dict.fromkeys((*table.known_aggregates, *aggregates)))
    return Fleet(
        table,
        _take_named(Flavor, document, "flavors"),
        _take_named(Image, document, "images"),
        _take_named(ServerGroup, document, "server_groups"),
        _take_options(document.get("options")),
        tuple(runs) if keeps_records else (),
    )


def _take_named(kind: type[Named], document: Mapping[str, Any], section: str) -> dict[str, Named]:
    found: dict[str, Named] = {}
    for at, entry in enumerate(_listed(document, section)):
        where = f"{section}[{at}]"
        record = from_json(kind, entry, where)
        for known_by in ("id", "uuid", "flavorid"):
            take_id(record.get(known_by), f"{where}.{known_by}")
        name = checks.name(record.name or str(record.get("uuid") or record.get("id") or ""), f"{where}.name")
        if name in found:
            raise FieldError(f"{where}.name", f"{name} is there twice", "give each its own name")
        found[name] = record
    return found


def _take_options(value: Any) -> dict[str, Mapping[str, Any]]:
    sections = checks.mapping({} if value is None else checks.plain_data(value, "options"), "options")
    return {
        name: checks.mapping({} if entries is None else entries, f"options.{name}")
        for name, entries in sections.items()
    }


def _drained(entries: list[Any]) -> Iterator[Any]:
    entries.reverse()
    while entries:
        yield entries.pop()


def _listed(document: Mapping[str, Any], section: str) -> list[Any]:
    entries = document.get(section)
    if entries is None:
        return []
    if not isinstance(entries, list):
        raise FieldError(section, f"{checks.shown(entries)} is not a list", "write - and an entry, line by line")
    return entries
