# SPDX-License-Identifier: Apache-2.0
"""The sources of options, in their order of precedence, and the origin of each value."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roost.options.declare import Declared
from roost.options.files import (
    ADDRESS,
    ADDRESS_PARTS,
    Key,
    LocatedSections,
    Sections,
    broker_address,
    check_shape,
    place_of,
    read_file,
)


@dataclass(frozen=True, eq=False)
class Source:
    """A file, in which an option is a list of lines, or a mapping, in which it is a value."""

    title: str
    sections: Sections
    is_file: bool = False
    is_fleet: bool = False
    """True for the options of a fleet file: data, which may not set every option."""
    is_derived: bool = False
    """True for a mapping that was computed from files: the broker's address from its parts."""

    def spelling_of(self, option: Declared) -> Key | None:
        """The newest (section, name) by which this source sets the option; None where it does not."""
        spellings = ((option.group, option.name), *option.old)
        return next((each for each in spellings if each[1] in self.sections.get(each[0], {})), None)

    def written(self, key: Key) -> Any:
        """The value of an option as written in this source."""
        return self.sections[key[0]][key[1]]


@dataclass(frozen=True)
class Sources:
    """All sources of options; iteration is in ascending order of precedence."""

    below: tuple[Source, ...]
    """Mappings with a lower precedence than the files."""
    files: tuple[Source, ...]
    explicit: Source

    def __iter__(self) -> Any:
        return iter((*self.below, *self.files, self.explicit))


def read_sources(files: Sequence[Path], fleet: Sections, explicit: Sections) -> Sources:
    """Read the files, derive the broker's address, and put all sources in order. Raises OptionError."""
    for given in (fleet, explicit):
        check_shape(given)
    written = tuple(Source(str(file), read_file(file), is_file=True) for file in files)
    below = [Source("fleet", fleet, is_fleet=True)]
    if written and (address := broker_address([file.sections for file in written])):
        place = next(file.title for file in reversed(written) if _has_parts(file))
        sections = LocatedSections({ADDRESS[0]: {ADDRESS[1]: address}}, lambda section, name: place)
        below.append(Source(place, sections, is_derived=True))
    return Sources(tuple(below), written, Source("options", explicit))


def _has_parts(source: Source) -> bool:
    return any(name in source.sections.get(section, {}) for section, name in ADDRESS_PARTS)


@dataclass(frozen=True)
class Origin:
    """The place from which an option gets its value: the source, and the name by which it is written there."""

    key: Key
    written: Any
    source: Source | None = None
    """None for an environment variable."""

    @property
    def place(self) -> str:
        """The file, and the line if known; or the environment variable."""
        if self.source is None:
            return f"{_variable(*self.key)} in the environment"
        return place_of(self.source.sections, *self.key)


def origin_of(option: Declared, sources: Sources) -> Origin | None:
    """The origin with the highest precedence that sets this option; None where the default applies."""
    variable = _variable(option.group, option.name)
    if sources.explicit.spelling_of(option) is None and variable in os.environ:
        return Origin((option.group, option.name), os.environ[variable])
    for source in (sources.explicit, *reversed(sources.files), *reversed(sources.below)):
        if key := source.spelling_of(option):
            return Origin(key, source.written(key), source)
    return None


def _variable(group: str, name: str) -> str:
    """The environment variable by which oslo.config sets an option."""
    return f"OS_{group.upper()}__{name.upper()}"
