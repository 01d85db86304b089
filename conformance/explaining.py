# SPDX-License-Identifier: Apache-2.0
"""Attributes differences to known defects of nova's NUMA fitting; all others stay unexplained.

Three defects are known from running nova, two of them in its search for NUMA cells of a host:

- *Pair cache*: results per pair of NUMA cells are cached under the wrong id, so a host with two or more NUMA cells
  may wrongly pass or be rejected for an instance whose NUMA cells are not equal.
- *Page size sticks*: with small, large or any, the page size found on the first NUMA cell of the host is reused for
  the next ones, so a host with two or more NUMA cells may be rejected wrongly.
- *No page pools*: nova fails to record an instance on a NUMA cell without page pools and continues as if nothing was
  consumed, so consumption, and the choice for later instances, differ where such a host was chosen.

A difference is attributed to one of the first two only if NUMATopologyFilter caused it, the request is of that kind,
and all hosts that differ have two or more NUMA cells; to the third only if nova chose such a host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from conformance.comparing import Answer, Difference
from roost.model.cpu_policy import ANY, LARGE, SMALL
from roost.model.numa import InstanceTopology
from roost.testing.vectors import build_request

NUMA_FILTER = "NUMATopologyFilter"
Names = set[tuple[str, str]]
Step = Mapping[str, Any]


def explain(case: Mapping[str, Any], nova: Answer, roost: Answer, difference: Difference) -> str | None:
    """The name of the defect that causes the difference; None where none is known."""
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
        is_explained = True  # the hosts that later instances saw are not part of the answer
    elif difference.key == "filtered":
        is_explained = is_chain_explained(nova["chain"], roost["chain"], suspects) and _is_about(difference, suspects)
    else:  # the chain, and the weights of its remaining hosts
        is_explained = is_chain_explained(nova["chain"], roost["chain"], suspects)
    return defect if is_explained else None


def find_defect(topology: InstanceTopology | None) -> str | None:
    """The defect that a request with this topology triggers on hosts with two or more NUMA cells, or None."""
    cells = topology.cells if topology else ()
    if any(cell.pagesize in (SMALL, LARGE, ANY) for cell in cells):
        return "page size sticks"
    sizes = {(len(cell.cpuset), len(cell.pcpuset), cell.memory, cell.pagesize) for cell in cells}
    return "pair cache" if len(sizes) > 1 else None


def hosts_with_cells(hosts: Sequence[Mapping[str, Any]]) -> Names:
    """(host, node) of the hosts with two or more NUMA cells."""
    return {
        (host["host"], host.get("node") or host["host"])
        for host in hosts
        if len((host.get("numa") or {}).get("cells", ())) > 1
    }


def _chose_without_pages(hosts: Sequence[Mapping[str, Any]], nova: Answer) -> bool:
    """Whether a host that nova chose has a NUMA cell without page pools."""
    without_pages = {
        (host["host"], host.get("node") or host["host"])
        for host in hosts
        if any(not cell.get("mempages") for cell in (host.get("numa") or {}).get("cells", ()))
    }
    chosen = nova.get("selections")
    return isinstance(chosen, list) and any((first[0], first[1]) in without_pages for first, *_ in chosen)


def is_chain_explained(nova: Sequence[Step], roost: Sequence[Step], suspects: Names) -> bool:
    """Whether the chains differ only in what NUMATopologyFilter decides about suspects."""
    disputed: Names = set()
    for nova_part, roost_part in zip(nova, roost, strict=False):  # the shorter chain ended without hosts
        if nova_part["filter"] == roost_part["filter"] == NUMA_FILTER:
            disputed |= _names(nova_part["passed"]) ^ _names(roost_part["passed"])
        left = [[pair for pair in step["passed"] if tuple(pair) not in disputed] for step in (nova_part, roost_part)]
        if nova_part["filter"] != roost_part["filter"] or left[0] != left[1]:
            return False
    return bool(disputed) and disputed <= suspects


def _is_about(difference: Difference, suspects: Names) -> bool:
    both = (difference.nova, difference.roost)
    return all(isinstance(each, list) for each in both) and _names(both[0]) ^ _names(both[1]) <= suspects


def _names(pairs: Sequence[Sequence[str]]) -> Names:
    return {(pair[0], pair[1]) for pair in pairs}
