# SPDX-License-Identifier: Apache-2.0
"""Differences that come from known defects of nova's NUMA fitting; everything else stays unexplained.

Three defects are known (found by running it), two of them in how nova searches for host cells:

- *Pair cache*: results per pair of cells are remembered under the wrong id, so an instance whose cells are not equal
  may be refused or let in wrongly by a host with two or more cells.
- *Page size sticks*: with small, large or any, the page size found on the first host cell tried is kept for the
  others, so a host with two or more cells may be refused wrongly.

- *No page pools*: nova fails to record a guest on a host cell without page pools and goes on as if nothing had been
  taken, so consumption, and the choice for later instances, differ where such a host was chosen.

A difference of the first two is explained only if NUMATopologyFilter made it, the request is of such a kind, and all
hosts on which the answers disagree have two or more cells; one of the third only if nova chose such a host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from conformance.comparing import Answer, Difference
from roost.model.numa import ANY, LARGE, SMALL, InstanceTopology
from roost.testing.conformance_cases import build_request

NUMA_FILTER = "NUMATopologyFilter"
Names = set[tuple[str, str]]
Step = Mapping[str, Any]


def explain(case: Mapping[str, Any], nova: Answer, roost: Answer, difference: Difference) -> str | None:
    """The defect that accounts for the difference; None where none does."""
    if difference.key == "error":
        return None
    topology = build_request(case["request"]).numa_topology
    if difference.key in ("selections", "consumed") and topology and _chose_without_pages(case["hosts"], nova):
        return "no page pools"
    if NUMA_FILTER not in case["filters"]:
        return None
    defect = find_defect(topology)
    suspects = hosts_with_cells(case["hosts"])
    if not defect or not suspects:
        return None
    if difference.key == "alone":
        is_explained = difference.rule == NUMA_FILTER and _is_about(difference, suspects)
    elif difference.key in ("selections", "consumed"):
        is_explained = True  # later instances meet hosts that no other part of the answer shows
    elif difference.key == "filtered":
        is_explained = is_chain_explained(nova["chain"], roost["chain"], suspects) and _is_about(difference, suspects)
    else:  # the chain, and the weights of the hosts that it left
        is_explained = is_chain_explained(nova["chain"], roost["chain"], suspects)
    return defect if is_explained else None


def find_defect(topology: InstanceTopology | None) -> str | None:
    """Which defect a request of this kind meets on a host with two or more cells."""
    cells = topology.cells if topology else ()
    if any(cell.pagesize in (SMALL, LARGE, ANY) for cell in cells):
        return "page size sticks"
    sizes = {(len(cell.cpuset), len(cell.pcpuset), cell.memory, cell.pagesize) for cell in cells}
    return "pair cache" if len(sizes) > 1 else None


def hosts_with_cells(hosts: Sequence[Mapping[str, Any]]) -> Names:
    """(host, node) of those with two or more NUMA cells."""
    return {
        (host["host"], host.get("node") or host["host"])
        for host in hosts
        if len((host.get("numa") or {}).get("cells", ())) > 1
    }


def _chose_without_pages(hosts: Sequence[Mapping[str, Any]], nova: Answer) -> bool:
    """Whether a host that nova chose has a NUMA cell without page pools."""
    bare = {
        (host["host"], host.get("node") or host["host"])
        for host in hosts
        if any(not cell.get("mempages") for cell in (host.get("numa") or {}).get("cells", ()))
    }
    chosen = nova.get("selections")
    return isinstance(chosen, list) and any((first[0], first[1]) in bare for first, *_ in chosen)


def is_chain_explained(nova: Sequence[Step], roost: Sequence[Step], suspects: Names) -> bool:
    """Only NUMATopologyFilter, and only on suspects, decides otherwise; on all other hosts every step agrees."""
    disputed: Names = set()
    for theirs, ours in zip(nova, roost, strict=False):  # the shorter one ran out of hosts
        if theirs["filter"] == ours["filter"] == NUMA_FILTER:
            disputed |= _names(theirs["passed"]) ^ _names(ours["passed"])
        left = [[pair for pair in step["passed"] if tuple(pair) not in disputed] for step in (theirs, ours)]
        if theirs["filter"] != ours["filter"] or left[0] != left[1]:
            return False
    return bool(disputed) and disputed <= suspects


def _is_about(difference: Difference, suspects: Names) -> bool:
    both = (difference.nova, difference.roost)
    return all(isinstance(each, list) for each in both) and _names(both[0]) ^ _names(both[1]) <= suspects


def _names(pairs: Sequence[Sequence[str]]) -> Names:
    return {(pair[0], pair[1]) for pair in pairs}
