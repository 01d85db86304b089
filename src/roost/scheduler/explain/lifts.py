# SPDX-License-Identifier: Apache-2.0
"""Lifts: which single check a request would fit without; where no single one suffices, which few together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from roost.errors import RoostError
from roost.hosts import Hosts
from roost.scheduler.explain.funnel import run_funnel
from roost.scheduler.explain.obstacles import Obstacles
from roost.scheduler.explain.records import Lift

FORCED = "force_hosts"
"""The subject of a request that is forced to hosts: lifted, all filters are asked, which forced hosts skip."""
MOST_COMBINATIONS, EXAMPLES = 5, 3


def find_lifts(obstacles: Obstacles) -> tuple[Lift, ...]:
    """The smallest sets of subjects without which the request fits, the one with most hosts first.

    Each is tried: the other checks are put to the hosts again. So it is true for plugins, too, which may look at
    several hosts at once.
    """
    tries_all = obstacles.unexplained.any()  # then a check may be to blame that rejects no host by itself
    singles = [(name,) for name, mask in obstacles.masks.items() if tries_all or mask.any()]
    found = list(_tried(obstacles, singles)) or list(_tried(obstacles, _smallest_combinations(obstacles)))
    return tuple(sorted(found, key=lambda each: -each.hosts))


def _tried(obstacles: Obstacles, combinations: Iterable[tuple[str, ...]]) -> Iterator[Lift]:
    """Those of these combinations of subjects without which the request fits."""
    for subjects in combinations:
        numbers = [number for subject in subjects for number in obstacles.subjects[subject]]
        try:
            if FORCED in subjects:
                left = run_funnel(obstacles.instance.unforced()).left
            else:
                left = run_funnel(obstacles.instance, without=numbers).left
        except RoostError:  # another check raises an error about a host that it would now be put to
            continue
        if len(left):
            yield Lift(subjects, _names(obstacles, numbers, left), len(left), _examples(left))


def _names(obstacles: Obstacles, numbers: list[int], left: Hosts) -> tuple[str, ...]:
    """The names of the checks among these that reject one of the hosts."""
    guilty = [number for number in numbers if obstacles.rejects(number, left.rows).any()]
    return tuple(obstacles.check(number).name for number in guilty or numbers)


def _examples(hosts: Hosts) -> tuple[str, ...]:
    """The first hosts by name, of a host with several nodes each node."""
    table = hosts.table
    pairs = [table.names[row] for row in hosts.rows[:EXAMPLES].tolist()]
    return tuple(host if len(table.rows_of_host(host)) == 1 else f"{host} (node {node})" for host, node in pairs)


def _smallest_combinations(obstacles: Obstacles) -> list[tuple[str, ...]]:
    """The sets of subjects that reject the hosts with the fewest obstacles, the most frequent ones."""
    names = [name for name, mask in obstacles.masks.items() if mask.any()]
    if not names:
        return []
    rows = np.flatnonzero(obstacles.counts == obstacles.counts.min())
    bits = np.packbits([obstacles.masks[name][rows] for name in names], axis=0)
    _, firsts, counts = np.unique(bits, axis=1, return_index=True, return_counts=True)
    frequent = firsts[np.argsort(-counts, kind="stable")[:MOST_COMBINATIONS]]
    return [tuple(obstacles.of_row(row)) for row in rows[frequent].tolist()]
