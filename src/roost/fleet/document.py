# SPDX-License-Identifier: Apache-2.0
"""Reads a YAML or JSON file that somebody else wrote: bounded in size, depth and expansion, with line numbers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NoReturn

import yaml

from roost.errors import FleetError

MAX_BYTES = 1 << 30
MAX_DEPTH = 64
MAX_NODES = 50_000_000
"""Values in a document once all aliases are expanded."""
LOCATE_BYTES = 8 << 20
"""Files up to this size are read again after an error, to name the line."""

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_document(path: Path) -> Any:
    """The contents of the file. A name that ends in .json is JSON, anything else YAML."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise FleetError(f"{path}: the file is larger than {MAX_BYTES >> 20} MiB")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise FleetError(f"{path}: cannot be read: {error.strerror or error}", "check the path") from None
    except UnicodeDecodeError as error:
        raise FleetError(f"{path}: byte {error.start} is not UTF-8", "save the file as UTF-8") from None
    return _parse_json(text, path) if path.suffix == ".json" else _parse_yaml(text, path)


def _parse_json(text: str, path: Path) -> Any:
    def refuse(name: str) -> NoReturn:
        raise FleetError(f"{path}: {name} is not a number a fleet can have")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        record = dict(pairs)
        if len(record) < len(pairs):
            seen: set[str] = set()
            twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            raise FleetError(f"{path}: the key {twice!r} is there twice in one object")
        return record

    try:
        return json.loads(text, parse_constant=refuse, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise FleetError(f"{path}, line {error.lineno}: not JSON: {error.msg}") from None
    except RecursionError:
        raise FleetError(f"{path}: nested too deeply") from None
    except ValueError as error:  # a number of thousands of digits
        raise FleetError(f"{path}: {error}") from None


def _parse_yaml(text: str, path: Path) -> Any:
    try:
        _refuse_bombs(text, path)
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f", line {mark.line + 1}" if mark else ""
        raise FleetError(f"{path}{line}: not YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError, TypeError) as error:
        raise FleetError(f"{path}: not YAML: {' '.join(str(error).split())}") from None


def _refuse_bombs(text: str, path: Path) -> None:
    """Walk the events - no recursion, no construction - and add up what aliases would expand to."""
    sizes: dict[str, int] = {}
    open_nodes: list[list[Any]] = [["", 0]]
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.AliasEvent):
            open_nodes[-1][1] += sizes.get(event.anchor or "", 0) + 1
        elif isinstance(event, yaml.ScalarEvent):
            open_nodes[-1][1] += 1
            if event.anchor:
                sizes[event.anchor] = 1
        elif isinstance(event, yaml.CollectionStartEvent):
            open_nodes.append([event.anchor, 1])
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, size = open_nodes.pop()
            open_nodes[-1][1] += size
            if anchor:
                sizes[anchor] = size
        if len(open_nodes) > MAX_DEPTH:
            raise FleetError(f"{path}, line {event.start_mark.line + 1}: nested deeper than {MAX_DEPTH} levels")
        if open_nodes[-1][1] > MAX_NODES:
            line = event.start_mark.line + 1
            raise FleetError(f"{path}, line {line}: expands to more than {MAX_NODES} values", "use fewer aliases")


def line_of(path: Path, field: str) -> int | None:
    """The line of a field such as `hosts[3].vcpus_total`, or of the nearest thing around it that is there."""
    try:
        if path.stat().st_size > LOCATE_BYTES:
            return None
        node = yaml.compose(path.read_text(encoding="utf-8"), Loader=_Loader)
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return None
    line = None
    for step in re.findall(r"\[(\d+)\]|([^.\[\]]+)", field):
        node, line = _descend(node, step, line)
    return line


def _descend(node: Any, step: tuple[str, str], line: int | None) -> tuple[Any, int | None]:
    position, key = step
    if position and isinstance(node, yaml.SequenceNode) and int(position) < len(node.value):
        child = node.value[int(position)]
        return child, child.start_mark.line + 1
    if key and isinstance(node, yaml.MappingNode):
        for name, child in node.value:
            if name.value == key:
                return child, name.start_mark.line + 1
    return None, line
