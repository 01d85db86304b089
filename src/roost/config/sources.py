# SPDX-License-Identifier: Apache-2.0
"""Where options may be written, and who has the last word on one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roost.config.broker_address import ADDRESS, PARTS, broker_address
from roost.config.files import Key, LocatedSections, Sections, check_shape, place_of, read_file
from roost.options import Declared


@dataclass(frozen=True, eq=False)
class Source:
    """A file, whose options have lists of lines, or a mapping, whose options have values."""

    title: str
    sections: Sections
    is_file: bool = False
    is_made: bool = False
    """True for what nobody has written in this form: an address that is made of its parts."""

    def spelling_of(self, option: Declared) -> Key | None:
        """The newest name by which the option is written here."""
        spellings = ((option.group, option.name), *option.old)
        return next((each for each in spellings if each[1] in self.sections.get(each[0], {})), None)

    def written(self, key: Key) -> Any:
        """The value, as it is written."""
        return self.sections[key[0]][key[1]]


@dataclass(frozen=True)
class Sources:
    """All of them, in order: a later one wins over an earlier one."""

    below: tuple[Source, ...]
    """Mappings that files win over."""
    files: tuple[Source, ...]
    explicit: Source

    def __iter__(self) -> Any:
        return iter((*self.below, *self.files, self.explicit))


def gather(files: Sequence[Path], fleet: Sections, explicit: Sections) -> Sources:
    """Read the files; the rest is there."""
    for given in (fleet, explicit):
        check_shape(given)
    written = tuple(Source(str(file), read_file(file), is_file=True) for file in files)
    below = [Source("fleet", fleet)]
    if written and (address := broker_address([file.sections for file in written])):
        place = next(file.title for file in reversed(written) if _has_parts(file))
        sections = LocatedSections({ADDRESS[0]: {ADDRESS[1]: address}}, lambda section, name: place)
        below.append(Source(place, sections, is_made=True))
    return Sources(tuple(below), written, Source("options", explicit))


def _has_parts(source: Source) -> bool:
    return any(name in source.sections.get(section, {}) for section, name in PARTS)


@dataclass(frozen=True)
class Origin:
    """The spelling of an option that counts."""

    place: str
    key: Key
    written: Any
    source: Source | None = None
    """None for the environment."""


def origin_of(option: Declared, sources: Sources) -> Origin | None:
    """Who has the last word on this option; None where nobody has said anything."""
    variable = f"OS_{option.group.upper()}__{option.name.upper()}"
    if sources.explicit.spelling_of(option) is None and variable in os.environ:
        return Origin(f"{variable} in the environment", (option.group, option.name), os.environ[variable])
    for source in (sources.explicit, *reversed(sources.files), *reversed(sources.below)):
        if key := source.spelling_of(option):
            return Origin(place_of(source.sections, *key), key, source.written(key), source)
    return None
