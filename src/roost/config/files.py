# SPDX-License-Identifier: Apache-2.0
"""Config files as they are written: section -> option -> its lines, before anybody asks what they mean."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from oslo_config import cfg

from roost.errors import OptionError

Sections = Mapping[str, Mapping[str, Any]]
Key = tuple[str, str]
"""Section and name of an option."""


class LocatedSections(dict[str, Mapping[str, Any]]):
    """Section -> option -> value, from a file: `place(section, option)` says where in the file that is."""

    def __init__(self, sections: Sections, place: Callable[[str, str], str]) -> None:
        super().__init__(sections)
        self.place = place


def place_of(sections: Sections, section: str, name: str = "") -> str:
    """Where an option stands, for errors: the file, or that it was given as a mapping."""
    return sections.place(section, name) if isinstance(sections, LocatedSections) else "options"


def check_shape(sections: Mapping[str, Any]) -> None:
    """A mapping may hold anything; options stand below their section."""
    for section, entries in sections.items():
        if not isinstance(entries, Mapping):
            where = place_of(sections, section)
            raise OptionError(f"{where}: [{section}] is {entries!r}", "write option: value pairs below it")


def files_in(dirs: Iterable[Path]) -> list[Path]:
    """The *.conf of each folder, sorted by name."""
    found: list[Path] = []
    for folder in dirs:
        try:
            names = sorted(each.name for each in folder.iterdir() if each.name.endswith(".conf"))
        except OSError as error:
            raise OptionError(f"{folder}: cannot be read: {error.strerror or error}", "name a folder") from None
        found += [folder / name for name in names]
    return found


def read_file(file: Path) -> LocatedSections:
    """A config file; the value of each option is the list of its lines."""
    sections: dict[str, dict[str, list[str]]] = {}
    try:
        cfg.ConfigParser(str(file), sections).parse()
    except (OSError, cfg.ParseError, UnicodeDecodeError) as error:
        raise OptionError(f"{file}: cannot be read: {one_line(error)}") from None
    merged: dict[str, dict[str, list[str]]] = {}
    for section, entries in sections.items():
        lines_of = merged.setdefault(section_name(section), {})
        for name, lines in entries.items():
            lines_of.setdefault(name, []).extend(lines)
    return LocatedSections(merged, lambda section, name: str(file))


def section_name(written: str) -> str:
    """The name of a section as oslo.config reads it: without regard to case, [DEFAULT] apart."""
    return written if written == "DEFAULT" else written.lower()


def one_line(error: BaseException) -> str:
    """What an error says, on one line."""
    return " ".join(str(error).split())
