# SPDX-License-Identifier: Apache-2.0
"""Fleets: the host table, and the flavors, images and server groups that requests name."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from roost.errors import FieldError, FleetError, UnknownName, nearest
from roost.fleet.aggregate_entries import by_host, check_hosts_exist, parse_aggregates
from roost.fleet.document import parse_document, read_text
from roost.fleet.gc_pause import gc_paused
from roost.fleet.host_entries import count_hosts, parse_hosts
from roost.fleet.line_numbers import line_of_error
from roost.fleet.option_lines import place_in, place_of_option
from roost.fleet.sections import ENTRIES, NAMED, OPTIONS, SECTIONS
from roost.hosts import HostTable
from roost.hosts.table import Run
from roost.model import Flavor, Image, ServerGroup
from roost.model.aggregate import split_values
from roost.model.fields import IDENTIFIER, NAME, refuse_unknown
from roost.model.kinds import shown
from roost.model.uuids import canonical_uuid
from roost.options.files import LocatedSections

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
