# SPDX-License-Identifier: Apache-2.0
"""Declaration of options: beside their owner, once, with nova's section and name.

    @dataclass(frozen=True)
    class Options:
        max_io_ops_per_host: int = option(8, min=0, help="I/O operations a host may run")

`declared(Options)` returns the declarations of a class. `roost.config` reads their values.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, get_type_hints

REDACTED = "***"
"""Replaces a secret in everything that is shown or logged."""
_KEY = "roost.option"


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
