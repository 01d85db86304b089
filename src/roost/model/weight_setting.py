# SPDX-License-Identifier: Apache-2.0
"""Option entries of the form `name=number`."""

from collections.abc import Sequence


def name_and_number(entries: Sequence[str]) -> dict[str, float]:
    """Name -> number, split at the first `=`; an entry that cannot be read is left out, a later one wins."""
    settings = {}
    for entry in entries:
        name, equals, number = entry.partition("=")
        try:
            if name and equals:
                settings[name] = float(number)
        except ValueError:
            continue
    return settings
