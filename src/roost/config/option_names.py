# SPDX-License-Identifier: Apache-2.0
"""Which names may stand in a file, and what each stands for.

A section that is ours alone holds nothing but our options and those of people's plugins: any other name is an error.
In one that is shared with other services, [DEFAULT] first of all, only a slip of the pen is. All other sections
belong to others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from roost.config.broker_address import ADDRESS, PARTS
from roost.config.files import Key, place_of
from roost.config.nova_names import NEIGHBOURS, PASSED_ON, STRICT, UNUSED
from roost.config.sources import Source
from roost.config.typos import meant
from roost.errors import OptionError, nearest
from roost.options import Declared, declared


class Problem(NamedTuple):
    """A name that is wrong."""

    error: OptionError
    key: Key
    may_be_of_a_plugin: bool
    """True where it resembles none of ours: plugins have options too, and we learn of these when they are loaded."""


class OptionNames:
    """Every spelling of every option."""

    def __init__(self, owners: Iterable[type]) -> None:
        """Owners that share an option must agree on it."""
        self.owners = {owner: declared(owner) for owner in owners}
        """Owner -> the options that it declares."""
        self.options: dict[Key, Declared] = {}
        for own in self.owners.values():
            for option in own:
                self.options.setdefault((option.group, option.name), option)
        self._old = {key: each for each in self.options.values() for key in each.old}
        self._parts = {key: self.options[ADDRESS] for key in PARTS if ADDRESS in self.options}
        self._known = _by_section((*self.options, *self._old))
        self._known_in_files = _by_section((*self.options, *self._old, *self._parts))

    def find(self, section: str, name: str) -> Declared | None:
        """The option that goes, or went, by this name, or has a part that did."""
        key = section, name
        return self.options.get(key) or self._old.get(key) or self._parts.get(key)

    def is_old(self, section: str, name: str) -> bool:
        """Whether a name that was found is an earlier spelling."""
        return (section, name) not in self.options

    def has_old(self, source: Source) -> bool:
        """Whether a source writes an option by an earlier name, or a part of one."""
        old = self._old.keys() | self._parts.keys()
        return any((section, name) in old for section, entries in source.sections.items() for name in entries)

    def problems(self, source: Source) -> Iterator[Problem]:
        """What is wrong with the names in a file, which others use too, or in a mapping, which is ours alone."""
        for section, entries in source.sections.items():
            if problem := self._section_problem(source, section):
                yield problem
            else:
                yield from self._name_problems(source, section, entries)

    def _section_problem(self, source: Source, section: str) -> Problem | None:
        ours = self._known.keys() | (UNUSED.keys() if source.is_file else UNUSED.keys() - PASSED_ON)
        if section in ours:
            return None
        slip = meant(section, ours)
        if source.is_file and not slip:
            return None
        where = place_of(source.sections, section)
        error = OptionError(f"{where}: there is no section [{section}]", nearest(section, ours))
        return Problem(error, (section, ""), not slip)

    def _name_problems(self, source: Source, section: str, entries: Iterable[str]) -> Iterator[Problem]:
        known = (self._known_in_files if source.is_file else self._known).get(section, set())
        unused = UNUSED.get(section, {}).keys()
        for name in entries:
            if name in known or name in unused or name in NEIGHBOURS.get(section, ()):
                continue
            slip = meant(name, known)
            if slip or self.is_strict(section) or (known and section == "DEFAULT" and not source.is_file):
                hint = f"did you mean {slip}?" if slip else nearest(name, known | unused)
                where = place_of(source.sections, section, name)
                error = OptionError(f"{where}: [{section}] has no option {name}", hint)
                yield Problem(error, (section, name), not slip)

    def is_strict(self, section: str) -> bool:
        """Whether nobody but Roost and its plugins has options in this section."""
        return section in STRICT and section in self._known


def _by_section(keys: Iterable[Key]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for section, name in keys:
        found.setdefault(section, set()).add(name)
    return found
