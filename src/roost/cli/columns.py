# SPDX-License-Identifier: Apache-2.0
"""Columns of reports, and which of them `-c` names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from roost.errors import BadInput, nearest

Columns = Mapping[str, str]
"""Title of each column -> name of the field that it shows. For a report about one object: its fields, by name."""


def titled(*titles: str) -> Columns:
    """Columns whose fields are named as they are, in small letters."""
    return {title: _normalised(title) for title in titles}


def fields(*names: str) -> Columns:
    """The fields of a report about one object, a row each."""
    return {name: name for name in names}


def find_columns(wanted: Sequence[str], columns: Columns) -> tuple[str, ...]:
    """Titles of the columns that `-c` names; BadInput for a name that none of them has.

    A column is named by its title or its field, as openstackclient has it: in any case, with spaces or underscores.
    """
    by_name = {_normalised(name): title for title, name in columns.items()}
    by_name |= {_normalised(title): title for title in columns}
    return tuple(_find(name, by_name, columns) for name in wanted)


def _find(name: str, by_name: Mapping[str, str], titles: Iterable[str]) -> str:
    found = by_name.get(_normalised(name))
    if found is None:
        hint = nearest(name, titles) if by_name else "leave out -c: nothing is printed in columns here"
        raise BadInput(f"-c {name}: there is no such column", hint)
    return found


def _normalised(name: str) -> str:
    return name.strip().lower().replace(" ", "_")
