# SPDX-License-Identifier: Apache-2.0
"""A fleet: the table of hosts and everything a request may name."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from roost.errors import FieldError, FleetError, UnknownName, nearest
from roost.fleet.document import line_of, read_document
from roost.fleet.hosts import HostNames, take_runs
from roost.fleet.names import expand_name
from roost.hosts import HostTable
from roost.model import Aggregate, Flavor, Image, ServerGroup, checks
from roost.model.aggregate import split_values
from roost.model.jsonform import from_json

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

    @classmethod
    def load(cls, source: str | Path | Mapping[str, Any]) -> Fleet:
        """From a YAML or JSON file, or from the same as a dict. Errors name file, line and field."""
        if isinstance(source, Mapping):
            return _take_fleet(source)
        path = Path(source)
        document = read_document(path)
        try:
            return _take_fleet({} if document is None else document)
        except FieldError as error:
            line = line_of(path, error.field)
            place = f"{path}, line {line}" if line else f"{path}"
            raise FleetError(f"{place}: {error.message}", error.hint) from None

    def table_at(self, service_down_time: int) -> HostTable:
        """A table of one's own, in which services silent for longer than that (seconds) are down."""
        table = self.table.copy()
        table.numbers["is_up"][:] = table.per_value("service", lambda each: each.is_up(service_down_time))
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
        column = self.table.encoded["aggregates"].values
        return {zone for each in column for zone in split_values(each, "availability_zone")}


def _look_up(kind: str, name: str, known: Mapping[str, Named]) -> Named:
    if name in known:
        return known[name]
    for each in known.values():
        if str(getattr(each, "uuid", None) or getattr(each, "id", None)) == name:
            return each
    raise UnknownName(f"unknown {kind} {name!r}", nearest(name, known))


def _take_fleet(document: Any) -> Fleet:
    if not isinstance(document, Mapping):
        raise FieldError("", f"{checks.shown(document)} is not a fleet", "write hosts: and a list below it")
    checks.known_keys(document, SECTIONS)
    names = HostNames()
    aggregates = _take_aggregates(document.get("aggregates") or [])
    table = HostTable.of_runs(take_runs(document.get("hosts") or [], _by_host(aggregates), names))
    _check_hosts_exist(aggregates, names.hosts)
    options = checks.mapping(document.get("options") or {}, "options")
    json.dumps(options, default=dict)  # refuses what no option could be
    return Fleet(
        table,
        _take_named(Flavor, document, "flavors"),
        _take_named(Image, document, "images"),
        _take_named(ServerGroup, document, "server_groups"),
        options,
    )


def _take_aggregates(entries: Any) -> list[Aggregate]:
    found: list[Aggregate] = []
    for at, entry in enumerate(_listed(entries, "aggregates")):
        where = f"aggregates[{at}]"
        aggregate = from_json(Aggregate, entry, where)
        if any(aggregate.name == other.name for other in found):
            raise FieldError(f"{where}.name", f"aggregate {aggregate.name} is there twice")
        hosts = [name for pattern in aggregate.hosts for name in expand_name(pattern, f"{where}.hosts")]
        number = aggregate.id if aggregate.id is not None else at + 1
        found.append(dataclasses.replace(aggregate, hosts=tuple(hosts), id=number))
    return found


def _by_host(aggregates: list[Aggregate]) -> dict[str, tuple[Aggregate, ...]]:
    by_host: dict[str, tuple[Aggregate, ...]] = {}
    for aggregate in aggregates:
        for host in dict.fromkeys(aggregate.hosts):
            by_host[host] = (*by_host.get(host, ()), aggregate)
    return by_host


def _check_hosts_exist(aggregates: list[Aggregate], hosts: Mapping[str, None]) -> None:
    for at, aggregate in enumerate(aggregates):
        for host in aggregate.hosts:
            if host not in hosts:
                raise FieldError(f"aggregates[{at}].hosts", f"there is no host {host}", nearest(host, hosts))


def _take_named(kind: type[Named], document: Mapping[str, Any], section: str) -> dict[str, Named]:
    found: dict[str, Named] = {}
    for at, entry in enumerate(_listed(document.get(section) or [], section)):
        where = f"{section}[{at}]"
        record = from_json(kind, entry, where)
        name = checks.text(record.name or str(record.get("uuid") or record.get("id") or ""), f"{where}.name")
        if name in found:
            raise FieldError(f"{where}.name", f"{name} is there twice")
        found[name] = record
    return found


def _listed(entries: Any, section: str) -> list[Any]:
    if not isinstance(entries, list):
        raise FieldError(section, f"{checks.shown(entries)} is not a list")
    return entries
