# SPDX-License-Identifier: Apache-2.0
"""Config files as written: section -> option -> its lines, with the place of each and before any conversion."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from oslo_config import cfg

from roost.errors import OptionError

Sections = Mapping[str, Mapping[str, Any]]
"""Section -> option -> value; the value of an option from a file is the list of its lines."""
Key = tuple[str, str]
"""Section and name of an option."""


class LocatedSections(dict[str, Mapping[str, Any]]):
    """Sections of a file. `place(section, option)` returns the file name, with the line if known."""

    def __init__(self, sections: Sections, place: Callable[[str, str], str]) -> None:
        super().__init__(sections)
        self.place = place


def place_of(sections: Sections, section: str, name: str = "") -> str:
    """The place of an option, for error messages: the file, and the line if known; `options` for a mapping."""
    return sections.place(section, name) if isinstance(sections, LocatedSections) else "options"


def check_shape(sections: Mapping[str, Any]) -> None:
    """Raise OptionError where a section does not hold a mapping of options."""
    for section, entries in sections.items():
        if not isinstance(entries, Mapping):
            where = place_of(sections, section)
            raise OptionError(f"{where}: [{section}] is {entries!r}", "write option: value pairs below it")


def files_in(dirs: Iterable[Path]) -> list[Path]:
    """The *.conf files of the folders, in the order of the folders, by name within each."""
    found: list[Path] = []
    for folder in dirs:
        try:
            names = sorted(each.name for each in folder.iterdir() if each.name.endswith(".conf"))
        except OSError as error:
            raise OptionError(f"{folder}: cannot be read: {error.strerror or error}", "name a folder") from None
        found += [folder / name for name in names]
    return found


def read_file(file: Path) -> LocatedSections:
    """Parse a config file; the value of each option is the list of its lines. Raises OptionError if it cannot."""
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
    """The name of a section as oslo.config reads it: in lower case, except [DEFAULT]."""
    return written if written == "DEFAULT" else written.lower()


def one_line(error: BaseException) -> str:
    """The message of an error, with line breaks replaced by spaces."""
    return " ".join(str(error).split())
