# SPDX-License-Identifier: Apache-2.0
"""Declaration of options: beside their owner, once, with nova's section and name.

    @dataclass(frozen=True)
    class Options:
        max_io_ops_per_host: int = option(8, min=0, help="I/O operations a host may run")

`declared(Options)` returns the declarations of a class. `read.py` reads their values. Filters and weighers are named
in options by their class (`NamedByClass`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, ClassVar, get_type_hints

REDACTED = "***"
"""Replaces a secret in everything that is shown or logged."""
_KEY = "roost.option"

TextCheck = Callable[[str], bool]
"""Whether a text is acceptable."""


@dataclass(frozen=True)
class Declared:
    """The declaration of one option: section, name, type, default, bounds and help text."""

    group: str
    """Section of the config file."""
    name: str
    kind: Any
    """int, float, bool, str, or tuple[str, ...] for a list."""
    default: Any
    help: str
    field: str = ""
    """Name of the dataclass field that holds the value."""
    min: float | None = None
    max: float | None = None
    choices: tuple[str, ...] | None = None
    repeats: bool = False
    """True where a file may repeat the line, one value per line (a multi-valued option of oslo.config)."""
    old: tuple[tuple[str, str], ...] = ()
    """Deprecated (section, name) pairs that are still accepted."""
    secret: bool = False
    """True where the value is redacted in messages and logs; of an address only password and parameters are."""
    reloads: bool = True
    """Whether a running service applies a new value on SIGHUP; False: it needs a restart."""
    in_fleet: bool | TextCheck | None = None
    """Whether a fleet file may set it; or a check that each text of such a value must pass. None: a number, a boolean
    and one of `choices` may be set, a text may not: it could name code, an address or a file."""

    def may_be_in_fleet(self, value: Any) -> bool:
        """Whether a fleet file may set the option to this value."""
        allowed = self.in_fleet
        if allowed is None:
            return self.kind in (int, float, bool) or self.choices is not None
        if isinstance(allowed, bool):
            return allowed
        listed = value.split(",") if isinstance(value, str) else value if isinstance(value, (list, tuple)) else ()
        return all(isinstance(each, str) and allowed(each.strip()) for each in listed)


def option(
    default: Any,
    *,
    help: str,  # noqa: A002 - reads as the word it is at every declaration
    min: float | None = None,  # noqa: A002
    max: float | None = None,  # noqa: A002
    choices: tuple[str, ...] | None = None,
    group: str = "filter_scheduler",
    name: str = "",
    repeats: bool = False,
    old: tuple[str, ...] = (),
    secret: bool = False,
    reloads: bool = True,
    in_fleet: bool | TextCheck | None = None,
) -> Any:
    """A dataclass field that declares an option. `old`: deprecated names, `name` (in [DEFAULT]) or `section.name`."""
    spellings = tuple(_split(each) for each in old)
    info = Declared(
        group=group,
        name=name,
        kind=None,
        default=default,
        help=help,
        min=min,
        max=max,
        choices=choices,
        repeats=repeats,
        old=spellings,
        secret=secret,
        reloads=reloads,
        in_fleet=in_fleet,
    )
    return dataclasses.field(default=default, metadata={_KEY: info})


def declared(options: type) -> tuple[Declared, ...]:
    """The options that a dataclass declares, in the order of its fields, with their types."""
    kinds = get_type_hints(options)
    found = []
    for field in dataclasses.fields(options):
        info = field.metadata[_KEY]
        name = info.name or field.name
        found.append(dataclasses.replace(info, name=name, field=field.name, kind=kinds[field.name]))
    return tuple(found)


def _split(spelling: str) -> tuple[str, str]:
    group, dot, name = spelling.rpartition(".")
    return (group.lower(), name) if dot else ("DEFAULT", spelling)  # oslo.config ignores the case of sections


def parse_weight_setting(entries: Sequence[str]) -> list[tuple[str, float]]:
    """(Name, number) of each entry, split at the first `=`, in order; an entry that cannot be parsed is left out."""
    settings = []
    for entry in entries:
        name, equals, number = entry.partition("=")
        try:
            if name and equals:
                settings.append((name, float(number)))
        except ValueError:
            continue
    return settings


class NamedByClass:
    """Base of classes whose `name` is the name of the class where neither it nor a base class of a plugin sets one.

    `name` is a plain class attribute, since it is read for every rule of every request. So that a subclass does not
    inherit the name of its base class, each class gets its own when it is defined.
    """

    name: str
    """Its name in configuration, decisions and logs: the name of the class, unless the class sets another."""
    _is_named_by_class: ClassVar[bool] = True

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        bases = takewhile(lambda each: each is not NamedByClass, cls.__mro__)
        given = [vars(each) for each in bases if "name" in vars(each) and "_is_named_by_class" not in vars(each)]
        if given:
            cls.name = given[0]["name"]  # may be a property
        else:
            cls.name, cls._is_named_by_class = cls.__name__, True
