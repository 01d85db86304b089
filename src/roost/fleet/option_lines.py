# SPDX-License-Identifier: Apache-2.0
"""The lines of the options in a fleet file, noted while it is parsed: errors about options come much later."""

from __future__ import annotations

from pathlib import Path

OPTIONS = "options"
"""The section of a fleet file whose lines are noted."""

OptionLines = dict[tuple[str, str], int]
"""(section, option) -> its line; (section, "") is the line of the section, ("", "") that of all options."""


def place_of_option(path: Path, lines: OptionLines, section: str, name: str) -> str:
    """The file, and the line of an option, or else of the nearest thing around it whose line is known.

    The file alone where there is none to be opened at that line: standard input, or one that is gone since.
    """
    known = (lines.get(each) for each in ((section, name), (section, ""), ("", "")))
    return place_in(path, next(filter(None, known), None) if path.is_file() else None)


def place_in(path: Path, line: int | None) -> str:
    """The file, and the line where that is known: `fleet.yaml, line 3`."""
    return f"{path}, line {line}" if line else f"{path}"
