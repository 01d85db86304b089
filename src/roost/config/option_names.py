# SPDX-License-Identifier: Apache-2.0
"""Resolves and validates the names of sections and options.

In a section of STRICT, which only Roost and its plugins read, every unknown name is an error. In a section shared
with other services, such as [DEFAULT], only a typo of a known name is. Other sections are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from roost.config.broker_address import ADDRESS, ADDRESS_PARTS
from roost.config.files import Key, place_of
from roost.config.fleet_options import check_fleet_option
from roost.config.nova_names import LOOKALIKES, PASSED_ON, STRICT, UNUSED
from roost.config.sources import Source
from roost.config.typos import correct_typo
from roost.errors import OptionError, nearest
from roost.options import Declared, declared


class Problem(NamedTuple):
    """An invalid name of an option or section, or an option that its source may not set."""

    error: OptionError
    key: Key
    """(section, name); the name is empty where the section is unknown."""
    may_belong_to_plugin: bool
    """True where it is no typo of a known name: it may be an option of a plugin that is not loaded yet."""
    is_refused: bool = False
    """True for an option that a fleet file may not set: no plugin is loaded to find out more."""


class OptionNames:
    """All declared options, indexed by their current and deprecated names."""

    def __init__(self, owners: Iterable[type]) -> None:
        """Index the options that the owners declare. Owners that share an option must declare it alike."""
        self.owners = {owner: declared(owner) for owner in owners}
        """Owner -> the options it declares."""
        self.options: dict[Key, Declared] = {}
        for own in self.owners.values():
            for option in own:
                self.options.setdefault((option.group, option.name), option)
        self._old = {key: each for each in self.options.values() for key in each.old}
        self._parts = {key: self.options[ADDRESS] for key in ADDRESS_PARTS if ADDRESS in self.options}
        self._numbers = {
            key
            for each in self.options.values()
            for key in ((each.group, each.name), *each.old)
            if each.in_fleet is None and each.kind in (int, float, bool)
        }
        """Names of the options that a fleet file may set to any number."""
        self._known = _by_section((*self.options, *self._old))
        self._known_in_files = _by_section((*self.options, *self._old, *self._parts))

    def find(self, section: str, name: str) -> Declared | None:
        """The option with this current or deprecated name, or derived from an option of this name; else None."""
        key = section, name
        return self.options.get(key) or self._old.get(key) or self._parts.get(key)

    def is_old(self, section: str, name: str) -> bool:
        """Whether a name that `find` knows is not the current one."""
        return (section, name) not in self.options

    def has_old(self, source: Source) -> bool:
        """Whether a source uses a deprecated name, or one from which an option is derived."""
        old = self._old.keys() | self._parts.keys()
        return any((section, name) in old for section, entries in source.sections.items() for name in entries)

    def problems(self, source: Source) -> Iterator[Problem]:
        """Invalid names in a source. A mapping is checked strictly: unlike a file, no other service reads it."""
        for section, entries in source.sections.items():
            if problem := self._section_problem(source, section):
                yield problem
            else:
                yield from self._name_problems(source, section, entries)

    def _section_problem(self, source: Source, section: str) -> Problem | None:
        known = self._known.keys() | (UNUSED.keys() if source.is_file else UNUSED.keys() - PASSED_ON.keys())
        if section in known:
            return None
        correction = correct_typo(section, known)
        if source.is_file and not correction:
            return None
        where = place_of(source.sections, section)
        error = OptionError(f"{where}: there is no section [{section}]", nearest(section, known))
        return Problem(error, (section, ""), not correction)

    def _name_problems(self, source: Source, section: str, entries: Mapping[str, Any]) -> Iterator[Problem]:
        known = (self._known_in_files if source.is_file else self._known).get(section, set())
        unused = UNUSED.get(section, {}).keys()
        for name in entries:
            if source.is_fleet and ((section, name) not in self._numbers or isinstance(entries[name], str)):
                yield from self._fleet_problems(source, (section, name))
            if name in known or name in unused or name in LOOKALIKES.get(section, ()):
                continue
            correction = correct_typo(name, known)
            if correction or self.is_strict(section) or (known and section == "DEFAULT" and not source.is_file):
                hint = f"did you mean {correction}?" if correction else nearest(name, known | unused)
                where = place_of(source.sections, section, name)
                error = OptionError(f"{where}: [{section}] has no option {name}", hint)
                yield Problem(error, (section, name), not correction)

    def _fleet_problems(self, source: Source, key: Key) -> Iterator[Problem]:
        option = self.find(*key)
        if option is not None and (error := check_fleet_option(source.sections, key, option)):
            yield Problem(error, key, False, is_refused=True)

    def is_strict(self, section: str) -> bool:
        """Whether only Roost and its plugins have options in this section."""
        return section in STRICT and section in self._known


def _by_section(keys: Iterable[Key]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for section, name in keys:
        found.setdefault(section, set()).add(name)
    return found
