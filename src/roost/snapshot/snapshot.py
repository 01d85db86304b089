# SPDX-License-Identifier: Apache-2.0
"""A snapshot of a cloud. Asked on another machine it gives the same answers, whenever it is asked."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from typing import Any

from roost import __version__
from roost.errors import FieldError, SnapshotError, nearest
from roost.fleet.fleet import Fleet
from roost.fleet.gc_pause import gc_paused
from roost.fleet.sections import OPTIONS
from roost.model.kinds import shown
from roost.options.files import LocatedSections, Sections
from roost.snapshot.file_format import pack, read_snapshot_file, unpack

SCHEMA = 1
"""Version of the schema that this version of Roost writes, and the newest that it reads."""
_SCHEMA_KEY = "roost_snapshot"
_KEYS = (_SCHEMA_KEY, "taken_at", "version", "options", "fleet", "servers")
_TEXTS_OF_SERVERS = ("name", "status", "host", "project_id")

Record = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """The fleet, the options of the scheduler and the servers of a cloud at one moment."""

    taken_at: datetime
    options: Sections
    """Of the scheduler, by section: what `deciding_options` returns."""
    document: Mapping[str, Any] = dataclasses.field(repr=False)
    """The fleet, in the form of a fleet file without options."""
    servers: list[Record] = dataclasses.field(repr=False)
    """As an admin sees them in `roost server show`."""
    version: str = __version__
    """Of the Roost that took it."""
    source: str = "snapshot"
    """What errors call it: its file, or where it comes from."""

    @classmethod
    def load(cls, path: str) -> Snapshot:
        """The snapshot in a file, `-` for standard input. SnapshotError for a file that is none."""
        return cls.of_bytes(read_snapshot_file(path), path)

    @classmethod
    def of_bytes(cls, content: bytes, source: str) -> Snapshot:
        """The snapshot in the content of a file, which errors call `source`."""
        with gc_paused():
            document = unpack(content, source)
            try:
                return _parse(document, source)
            except FieldError as error:
                raise SnapshotError(f"{source}: {error.message}", error.hint) from None

    def to_bytes(self) -> bytes:
        """The content of its file."""
        head = {_SCHEMA_KEY: SCHEMA, "taken_at": self.taken_at.isoformat(), "version": self.version}
        return pack(head | {"options": self.options, "fleet": self.document, "servers": self.servers})

    def fleet_document(self) -> dict[str, Any]:
        """The fleet as `fleet export` writes it; SnapshotError if it is invalid."""
        return dict(self.document) if self.fleet else {}

    @cached_property
    def fleet(self) -> Fleet:
        """The fleet with its host records; its options win over those of config files."""
        try:
            with gc_paused():
                found = Fleet.load(self.document, keeps_records=True)
        except FieldError as error:
            raise SnapshotError(f"{self.source}: fleet: {error.message}", error.hint) from None
        options = LocatedSections(self.options, lambda section, name: self.source)
        return dataclasses.replace(found, options=options, options_win=True)


def _parse(document: Record, source: str) -> Snapshot:
    _check_schema(document.get(_SCHEMA_KEY))
    for name in document:
        if name not in _KEYS:
            raise FieldError("", f"unknown field {name[:60]!r}", nearest(name, _KEYS))
    version, fleet = document.get("version"), document.get("fleet")
    if not isinstance(version, str) or not version.isprintable() or len(version) > 100:
        raise FieldError("version", f"{shown(version)} is no version")
    if not isinstance(fleet, dict):
        raise FieldError("fleet", f"{shown(fleet)} is no fleet")
    if "options" in fleet:
        raise FieldError("fleet.options", "is there twice: a snapshot has its options beside the fleet")
    options = OPTIONS.strict(document.get("options"), "options")
    return Snapshot(
        _time(document.get("taken_at")), options, fleet, _servers(document.get("servers")), version, source
    )


def _check_schema(schema: Any) -> None:
    if isinstance(schema, bool) or not isinstance(schema, int) or schema < 1:
        problem = "no snapshot: it does not say which schema it has"
        raise FieldError("", problem, "roost snapshot save FILE makes one; a fleet file is given with --fleet")
    if schema > SCHEMA:
        problem = f"the snapshot has schema {schema}, and Roost {__version__} reads up to {SCHEMA}"
        raise FieldError("", problem, "read it with the version of Roost that took it, or a newer one")


def _time(text: Any) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        found = None
    if found is None or found.tzinfo is None:
        raise FieldError("taken_at", f"{shown(text)} is no time with a time zone")
    return found


def _servers(listed: Any) -> list[Record]:
    if not isinstance(listed, list):
        raise FieldError("servers", f"{shown(listed)} is no list")
    for at, each in enumerate(listed):
        if not isinstance(each, dict) or not isinstance(each.get("id"), str):
            raise FieldError(f"servers[{at}]", f"{shown(each)} is no server", "each is an object with an id")
        for name in _TEXTS_OF_SERVERS:
            if not isinstance(each.get(name), str | None):
                raise FieldError(f"servers[{at}].{name}", f"{shown(each[name])} is no text")
    return listed
