# SPDX-License-Identifier: Apache-2.0
"""How an option is declared: beside its owner, once, with nova's section and name.

    @dataclass(frozen=True)
    class Options:
        max_io_ops_per_host: int = option(8, min=0, help="I/O operations a host may run")

`declared(Options)` lists what a class asks for. Reading files is the business of `roost.config`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, get_type_hints

_KEY = "roost.option"


@dataclass(frozen=True)
class Declared:
    """One option: where it stands in a file, what it may be, what it means."""

    group: str
    name: str
    kind: Any
    default: Any
    help: str
    field: str = ""
    min: float | None = None
    max: float | None = None
    choices: tuple[str, ...] | None = None
    repeats: bool = False
    """True where a file may repeat the line, one value each (nova's multi-valued options)."""
    old: tuple[tuple[str, str], ...] = ()
    """Earlier (section, name) spellings that still work."""
    secret: bool = False
    """True where the value must not reach a message or a log. Of an address only the password is hidden."""
    reloads: bool = True
    """Whether a running service takes up a new value on SIGHUP; False: it must be started anew."""


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
    """Declare an option. `old` holds earlier spellings: `name` (in [DEFAULT]) or `section.name`."""
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
    """The options that this class declares, in order, with their types."""
    kinds = get_type_hints(options)
    found = []
    for field in dataclasses.fields(options):
        info = field.metadata[_KEY]
        name = info.name or field.name
        found.append(dataclasses.replace(info, name=name, field=field.name, kind=kinds[field.name]))
    return tuple(found)


def _split(spelling: str) -> tuple[str, str]:
    group, dot, name = spelling.rpartition(".")
    return (group.lower(), name) if dot else ("DEFAULT", spelling)  # sections are read without regard to case
