# SPDX-License-Identifier: Apache-2.0
"""Line numbers of the options in a fleet file, recorded while parsing: options are validated much later."""

from __future__ import annotations

from pathlib import Path

OPTIONS_SECTION = "options"
"""The section of a fleet file whose lines are recorded."""

OptionLines = dict[tuple[str, str], int]
"""(section, option) -> line; (section, "") is the line of the section, ("", "") the line of `options`."""


def place_of_option(path: Path, lines: OptionLines, section: str, name: str) -> str:
    """The file and the line of an option, or of its nearest parent with a known line: `fleet.yaml, line 3`.

    Only the path if it is not a file that can be opened: standard input, or a file that was deleted.
    """
    known = (lines.get(each) for each in ((section, name), (section, ""), ("", "")))
    return place_in(path, next(filter(None, known), None) if path.is_file() else None)


def place_in(path: Path, line: int | None) -> str:
    """The file and the line, if the line is known: `fleet.yaml, line 3`."""
    return f"{path}, line {line}" if line else f"{path}"
