# SPDX-License-Identifier: Apache-2.0
"""Copies of a table that leave no trace in it."""


def twin_of(table):
    """A copy that leaves the table as it is: `copy` makes columns read-only, and a report then replaces them."""
    numbers = {name for name, column in table.numbers.items() if column.flags.writeable}
    encoded = {name for name, column in table.encoded.items() if column.codes.flags.writeable}
    twin = table.copy()
    for name in numbers:
        twin.numbers[name] = table.numbers[name].copy()
        table.numbers[name].flags.writeable = True
    for name in encoded:
        twin.encoded[name].codes = table.encoded[name].codes.copy()
        table.encoded[name].codes.flags.writeable = True
    return twin
