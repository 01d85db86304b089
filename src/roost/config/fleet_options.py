# SPDX-License-Identifier: Apache-2.0
"""Options of a fleet file. A fleet file is data that people pass on: it names no code, no addresses and no files.

Each option says beside its declaration whether a fleet file may set it (`Declared.in_fleet`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from roost.config.files import Key, Sections, place_of
from roost.errors import OptionError
from roost.model.kinds import shown
from roost.options import REDACTED, Declared

_REMEDY = "set it in a config file, with --config-file"


def check_fleet_option(sections: Sections, key: Key, option: Declared) -> OptionError | None:
    """The error where a fleet file may not set the option, or not to this value; None where it may."""
    value = sections[key[0]][key[1]]
    where = f"{_place(sections, key)} = {REDACTED if option.secret else shown(value)}"
    if not option.may_be_in_fleet(value):
        return OptionError(f"{where}: a fleet file may not name code, addresses or files", _REMEDY)
    if any("$" in text for text in _texts(value)):
        return OptionError(f"{where}: in a fleet file $ cannot refer to another option", _REMEDY)
    return None


def check_fleet_option_of_plugin(sections: Sections, key: Key) -> None:
    """Raise OptionError where a fleet file sets a plugin's option to a text: it may be an address or a file."""
    if any(True for _ in _texts(sections[key[0]][key[1]])):
        problem = "a fleet file may set an option of a plugin to a number, to true or to false, not to a text"
        raise OptionError(f"{_place(sections, key)}: {problem}", _REMEDY)


def _place(sections: Sections, key: Key) -> str:
    return f"{place_of(sections, *key)}: [{key[0]}] {key[1]}"


def _texts(value: Any) -> Iterator[str]:
    """The texts in a value, at any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, dict):
        yield from _texts([*value, *value.values()])
