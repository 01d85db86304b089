# SPDX-License-Identifier: Apache-2.0
"""The values of all options, their origins, and the differences between two sets of settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from roost.options.declare import Declared, declared
from roost.options.files import Key
from roost.options.names import redact
from roost.options.report import ConfigReport
from roost.options.sources import Origin

Options = TypeVar("Options")

DEFAULT_ORIGIN = "default"
"""Origin of a value that no source sets."""


@dataclass(frozen=True, repr=False)
class Settings:
    """The values of all declared options; immutable."""

    options: Mapping[Key, Declared]
    _owners: Mapping[type, tuple[Declared, ...]]
    _values: Mapping[Key, Any]
    _origins: Mapping[Key, Origin]
    _make_report: Callable[[], ConfigReport]

    @property
    def report(self) -> ConfigReport:
        """The options of each source, classified; computed at every access."""
        return self._make_report()

    def fill(self, options: type[Options]) -> Options:
        """An instance of the dataclass `options` with the values of its options."""
        own = self._owners[options] if options in self._owners else declared(options)
        return options(**{each.field: self._values[each.group, each.name] for each in own})

    @property
    def owners(self) -> Mapping[type, tuple[Declared, ...]]:
        """Class -> the options that it declares."""
        return self._owners

    def value(self, group: str, name: str) -> Any:
        """The value of one option, converted to its type."""
        return self._values[group, name]

    def redacted(self, group: str, name: str) -> str:
        """The value of one option as text, secrets redacted."""
        return redact(self.options[group, name], self._values[group, name])

    def origin(self, group: str, name: str) -> str:
        """Where the value of an option comes from: a file, an environment variable, or `default`."""
        origin = self._origins.get((group, name))
        return origin.place if origin else DEFAULT_ORIGIN


@dataclass(frozen=True)
class OptionDifference:
    """An option whose value differs between two sets of settings; `old` and `new` are text, secrets redacted."""

    group: str
    name: str
    old: str
    new: str
    reloads: bool
    """Whether a running service applies the new value on SIGHUP; False: it needs a restart."""

    def __str__(self) -> str:
        what = f"{self.old} -> {self.new}" if self.old != self.new else "the secret in it changed"
        return f"[{self.group}] {self.name}: {what}"


def compare(old: Settings, new: Settings) -> list[OptionDifference]:
    """The options that two sets of settings share and whose values differ, by section and name."""
    return [
        OptionDifference(*key, old.redacted(*key), new.redacted(*key), new.options[key].reloads)
        for key in sorted(old.options.keys() & new.options.keys())
        if old.value(*key) != new.value(*key)
    ]
