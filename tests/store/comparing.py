# SPDX-License-Identifier: Apache-2.0
"""Whether a table that was patched is the one that a full read gives."""

import numpy as np


def assert_same_table(found, expected):
    """The same hosts with the same figures, values, instances and uuids."""
    assert found.names == expected.names
    assert {row: found.uuids[row] for row in sorted(found.uuids)} == expected.uuids
    for name in found.numbers.keys() | expected.numbers.keys():
        assert figures(found, name) == figures(expected, name), name
    assert found.encoded.keys() == expected.encoded.keys()
    for column in found.encoded.values():
        assert column.used() == np.unique(column.codes).tolist()
    for name, column in expected.encoded.items():
        for row, pair in enumerate(found.names):
            assert found.encoded[name].at(row) == column.at(row), (name, pair)
    assert held(found) == held(expected)
    assert where(found) == where(expected)
    assert found.known_aggregates == expected.known_aggregates
    assert found.granular_classes >= expected.granular_classes
    assert found.packs_numa_cells == expected.packs_numa_cells


def figures(table, name):
    """A column; of a resource class that no host has any more, what it says of hosts that have none."""
    if name in table.numbers:
        return table.numbers[name].tolist()
    return np.full(len(table.names), 1.0 if name.startswith(("min_unit:", "step_size:")) else 0.0).tolist()


def held(table):
    return {row: instances for row, instances in table.instances.items() if instances}


def where(table):
    return {uuid: sorted(rows) for uuid, rows in table.instance_index._rows.items()}
