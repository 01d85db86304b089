# SPDX-License-Identifier: Apache-2.0
"""The value of every option, where it comes from, and how two readings differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from roost.config.files import Key
from roost.config.redaction import shown
from roost.config.report import ConfigReport
from roost.options import Declared, declared

Options = TypeVar("Options")

DEFAULT_ORIGIN = "default"
"""Origin of a value that nobody has set."""


@dataclass(frozen=True, repr=False)
class Settings:
    """The value of every declared option."""

    options: Mapping[Key, Declared]
    _owners: Mapping[type, tuple[Declared, ...]]
    _values: Mapping[Key, Any]
    _origins: Mapping[Key, str]
    _make_report: Callable[[], ConfigReport]

    @property
    def report(self) -> ConfigReport:
        """What stands in each source, and what became of it."""
        return self._make_report()

    def fill(self, options: type[Options]) -> Options:
        """The options of one owner, with the values that were read."""
        own = self._owners[options] if options in self._owners else declared(options)
        return options(**{each.field: self._values[each.group, each.name] for each in own})

    def value(self, group: str, name: str) -> Any:
        """The value of one option."""
        return self._values[group, name]

    def shown(self, group: str, name: str) -> str:
        """The same for people's eyes: as text, without secrets."""
        return shown(self.options[group, name], self._values[group, name])

    def origin(self, group: str, name: str) -> str:
        """Where the value comes from: a file, a variable of the environment, or `default`."""
        return self._origins.get((group, name), DEFAULT_ORIGIN)


@dataclass(frozen=True)
class OptionChange:
    """An option that has another value than before. Both values are text without secrets."""

    group: str
    name: str
    old: str
    new: str
    reloads: bool
    """Whether a running service takes it up; else it must be started anew."""

    def __str__(self) -> str:
        what = f"{self.old} -> {self.new}" if self.old != self.new else "the secret in it changed"
        return f"[{self.group}] {self.name}: {what}"


def compare(old: Settings, new: Settings) -> list[OptionChange]:
    """What differs between two readings of the same options, by section and name."""
    return [
        OptionChange(*key, old.shown(*key), new.shown(*key), new.options[key].reloads)
        for key in sorted(old.options.keys() & new.options.keys())
        if old.value(*key) != new.value(*key)
    ]
