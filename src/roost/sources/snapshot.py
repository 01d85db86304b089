# SPDX-License-Identifier: Apache-2.0
"""A snapshot of a cloud. Asked on another machine it gives the same answers, whenever it is asked.

It holds the fleet, the servers, and all options that decide where servers go and that data may set. The rule is that
of fleet files: no code, no addresses, no files (`roost.options.files`). A plugin of your own is held by the name of
its class; where its code is, a config file has to say on each machine. Where a source only knows which instances run
where, names and states of its servers stay unknown.

The file is gzip of one JSON object. Files come from other people: size and depth are bounded, and a file is
decompressed twice. The first time it is only counted, so a decompression bomb never gets memory.
"""

from __future__ import annotations

import dataclasses
import gzip
import json
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any

from roost import __version__
from roost.errors import FieldError, FleetError, SnapshotError, nearest
from roost.filters.base import Filter
from roost.hosts import HostRecord
from roost.hosts.record import Pair
from roost.model.descriptions import describe_flavor, time_text
from roost.model.json_records import is_deeper_than
from roost.model.kinds import shown
from roost.options.declare import Declared
from roost.options.files import Key, LocatedSections, Sections, check_fleet_option
from roost.options.settings import Settings
from roost.plugins.registry import FILTERS, WEIGHERS, is_built_in_path, is_class_name
from roost.sources.documents import NotJson, gc_paused, parse_json
from roost.sources.fields import OPTIONS
from roost.sources.fleet_file import Fleet
from roost.weighers.base import Weigher

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


MAX_FILE_BYTES = 1 << 28
MAX_DOCUMENT_BYTES = 1 << 30
"""Decompressed: as large as a fleet file may be."""
MAX_DEPTH = 64
STDIN = "-"

_MAKE_ONE = "roost snapshot save FILE makes one"
_PART_BYTES = 1 << 20


def pack(document: dict[str, Any]) -> bytes:
    """The content of a file with this document; the same document gives the same bytes."""
    try:
        text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise SnapshotError(f"a snapshot cannot hold this: {error}", "a snapshot is JSON") from None
    return gzip.compress(text.encode(), compresslevel=6, mtime=0)


def unpack(content: bytes, source: str) -> dict[str, Any]:
    """The document in the content of a file, which errors call `source`. SnapshotError for anything else."""
    size = sum(map(len, _parts(content, source)))
    if size > MAX_DOCUMENT_BYTES:
        problem = f"it decompresses to more than {MAX_DOCUMENT_BYTES >> 20} MiB"
        raise SnapshotError(f"{source}: {problem}, which no snapshot needs", _MAKE_ONE)
    try:
        text = b"".join(_parts(content, source)).decode()
        document, _ = parse_json(text, Path(source))
    except UnicodeDecodeError as error:
        raise SnapshotError(f"{source}: no snapshot: byte {error.start} is not UTF-8", _MAKE_ONE) from None
    except NotJson:
        raise SnapshotError(f"{source}: no snapshot: what it holds is no JSON", _MAKE_ONE) from None
    except FleetError as error:
        raise SnapshotError(error.message, error.hint) from None
    if not isinstance(document, dict):
        raise SnapshotError(f"{source}: no snapshot: it holds no JSON object", _MAKE_ONE)
    if is_deeper_than(MAX_DEPTH, document):
        raise SnapshotError(f"{source}: nested more than {MAX_DEPTH} levels deep", _MAKE_ONE)
    return document


def _parts(content: bytes, source: str) -> Iterator[bytes]:
    """The decompressed content, part by part, and no more than one part beyond what is allowed."""
    count = 0
    try:
        with gzip.open(BytesIO(content)) as file:
            while count <= MAX_DOCUMENT_BYTES and (part := file.read(_PART_BYTES)):
                count += len(part)
                yield part
    except EOFError:
        raise SnapshotError(f"{source}: the file ends too early: it is truncated", "copy it again") from None
    except gzip.BadGzipFile as error:
        if content[:2] == b"\x1f\x8b":
            raise SnapshotError(f"{source}: the file is damaged: {error}", "copy it again") from None
        hint = f"{_MAKE_ONE}; a fleet file is given with --fleet"
        raise SnapshotError(f"{source}: no snapshot: it is not compressed with gzip", hint) from None
    except (zlib.error, OSError) as error:
        raise SnapshotError(f"{source}: the file is damaged: {error}", "copy it again") from None


def read_snapshot_file(path: str) -> bytes:
    """The content of a file, or of standard input for `-`; SnapshotError if it is unreadable or too large."""
    try:
        content = _read(path)
    except OSError as error:
        raise SnapshotError(f"{path}: cannot be read: {error.strerror or error}", "check the path") from None
    if len(content) > MAX_FILE_BYTES:
        raise SnapshotError(f"{path}: the file is larger than {MAX_FILE_BYTES >> 20} MiB", _MAKE_ONE)
    return content


def _read(path: str) -> bytes:
    if path == STDIN:
        return sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
    with Path(path).open("rb") as file:
        return file.read(MAX_FILE_BYTES + 1)


OWN_PLUGIN_HINT = (
    "it is not built in: name a config file that says where it is, "
    "with --config-file and [filter_scheduler] available_filters or weight_classes"
)
_AVAILABLE, _WEIGHERS = ("filter_scheduler", "available_filters"), ("filter_scheduler", "weight_classes")
_NAMES_OF_CLASSES = {
    ("filter_scheduler", "enabled_filters"),
    ("filter_scheduler", "baremetal_enabled_filters"),
    _WEIGHERS,
}


def deciding_options(settings: Settings) -> dict[str, dict[str, Any]]:
    """Section -> option -> value, defaults included, so that another version of Roost decides by the same values."""
    found: dict[str, dict[str, Any]] = {}
    for key, option in _declared(settings):
        value = settings.value(*key)
        value = list(value) if isinstance(value, tuple) else value
        if key in _NAMES_OF_CLASSES:
            value = [each if is_built_in_path(each) else each.rpartition(".")[2] for each in value]
        is_known = value is not None and key != _AVAILABLE and not option.secret
        if is_known and check_fleet_option({key[0]: {key[1]: value}}, key, option) is None:
            found.setdefault(key[0], {})[key[1]] = value
    return found


def _declared(settings: Settings) -> Iterator[tuple[Key, Declared]]:
    """The options of the scheduler's decisions, and those of built-in filters and weighers."""
    built_in: tuple[type[Filter] | type[Weigher], ...] = (*FILTERS, *WEIGHERS)
    plugins = {each.Options for each in built_in if each.Options is not None}
    for owner, options in settings.owners.items():
        if owner in plugins or getattr(owner, "decides_placements", False):
            yield from (((each.group, each.name), each) for each in options)


def with_own_weighers(options: Sections, paths: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
    """The options of a snapshot, in which each weigher that is not built in is named by its path among `paths`.

    `paths`: the `weight_classes` of config files on this machine. There is no option for weighers like
    `available_filters`, so these say where the code is, and the snapshot says which of them take part.
    """
    named = options.get(_WEIGHERS[0], {}).get(_WEIGHERS[1], ())
    where = {path.rpartition(".")[2]: path for path in paths if not is_class_name(path)}
    own = {each.__name__ for each in WEIGHERS}
    found = [where.get(each, each) if isinstance(each, str) and each not in own else each for each in named]
    return {**options, _WEIGHERS[0]: {**options.get(_WEIGHERS[0], {}), _WEIGHERS[1]: found}} if named else options


def servers_of_instances(hosts: Iterable[tuple[HostRecord, Iterable[Pair]]]) -> Iterator[dict[str, Any]]:
    """A server for each instance. `hosts`: records, each with the (host, node) pairs that it stands for."""
    for record, pairs in hosts:
        for host, node in pairs:
            for each in record.instances:
                yield {
                    "id": each.uuid,
                    "name": None,
                    "status": "UNKNOWN",
                    "host": host,
                    "node": node,
                    "project_id": each.project_id,
                    "flavor": describe_flavor(each.flavor) if each.flavor else None,
                    "created_at": time_text(each.created_at),
                }
