# SPDX-License-Identifier: Apache-2.0
"""Parser of weight settings: option entries of the form `name=number`."""

from collections.abc import Sequence


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
