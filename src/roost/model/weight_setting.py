# SPDX-License-Identifier: Apache-2.0
"""Parser of weight settings: option entries of the form `name=number`."""

from collections.abc import Sequence


def parse_weight_setting(entries: Sequence[str]) -> dict[str, float]:
    """Name -> number, split at the first `=`. Invalid entries are left out; later entries replace earlier ones."""
    settings = {}
    for entry in entries:
        name, equals, number = entry.partition("=")
        try:
            if name and equals:
                settings[name] = float(number)
        except ValueError:
            continue
    return settings
