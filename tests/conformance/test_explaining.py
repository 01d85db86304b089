# SPDX-License-Identifier: Apache-2.0
"""Only differences of the known kinds are explained. Cells and answers of the first two tests are nova 34.0.0's."""

from __future__ import annotations

from typing import Any

from conformance.asking import ask_roost
from conformance.tally import judge

NUMA = "NUMATopologyFilter"


def host_cell(number: int, cpus: int, memory: int, **pages: int) -> dict[str, Any]:
    """A cell of plain shared CPUs; `kb4=10` are ten pages of 4 KiB."""
    first = 10 * number
    numbers = list(range(first, first + cpus))
    pools = [{"size_kb": int(name[2:]), "total": total} for name, total in pages.items()]
    return {
        "id": number,
        "cpuset": numbers,
        "memory": memory,
        "siblings": [[cpu] for cpu in numbers],
        "mempages": pools or [{"size_kb": 4, "total": 256 * memory}],
    }


def make_case(host_cells: list[dict[str, Any]], cells: list[tuple[int, int]], pagesize: int | None = None) -> Any:
    """One host `a`, and an instance with cells of so many CPUs and MiB."""
    wanted = [
        {"id": at, "cpuset": [10 * at + cpu for cpu in range(cpus)], "memory": memory, "pagesize": pagesize}
        for at, (cpus, memory) in enumerate(cells)
    ]
    flavor = {"vcpus": sum(cpus for cpus, _ in cells), "memory_mb": sum(memory for _, memory in cells)}
    return {
        "id": "numa",
        "hosts": [
            {"host": "a", "numa": {"cells": host_cells}, "cpu_allocation_ratio": 1.0, "ram_allocation_ratio": 1.0}
        ],
        "request": {"flavor": flavor, "image": {"properties": {}}, "numa_topology": {"cells": wanted}},
        "filters": ["AllHostsFilter", NUMA],
    }


def answer_with(case: Any, hosts: list[list[str]], rule: str = NUMA) -> Any:
    """Roost's answer, but with these hosts passed by the rule and left at the end."""
    answer = ask_roost(case)
    chain = [{**step, "passed": hosts} if step["filter"] == rule else step for step in answer["chain"]]
    return {**answer, "alone": {**answer["alone"], rule: hosts}, "chain": chain, "filtered": hosts}


def reasons(case: Any, nova: Any) -> dict[str, str | None]:
    return {each.place: reason for each, reason in judge(case, nova, ask_roost(case)).differences}


def test_unequal_cells_that_nova_confuses() -> None:
    case = make_case([host_cell(0, 1, 1024), host_cell(1, 4, 2048), host_cell(2, 4, 512)], [(4, 256), (2, 1024)])
    nova = answer_with(case, [])
    assert ask_roost(case)["filtered"] == [["a", "a"]]
    assert reasons(case, nova) == dict.fromkeys((f"alone.{NUMA}", f"chain.{NUMA}", "filtered"), "pair cache")


def test_a_page_size_that_sticks() -> None:
    case = make_case([host_cell(0, 1, 1024, kb2048=512), host_cell(1, 4, 1024, kb4=262144)], [(2, 512)], pagesize=-3)
    nova = answer_with(case, [])
    assert ask_roost(case)["filtered"] == [["a", "a"]]
    assert reasons(case, nova) == dict.fromkeys((f"alone.{NUMA}", f"chain.{NUMA}", "filtered"), "page size sticks")


def test_equal_cells_explain_nothing() -> None:
    case = make_case([host_cell(0, 4, 1024), host_cell(1, 4, 1024)], [(2, 512), (2, 512)])
    assert set(reasons(case, answer_with(case, [])).values()) == {None}


def test_a_size_in_kib_explains_nothing() -> None:
    case = make_case([host_cell(0, 4, 1024), host_cell(1, 4, 1024)], [(2, 512)], pagesize=4)
    assert set(reasons(case, answer_with(case, [])).values()) == {None}


def test_a_host_with_one_cell_is_no_suspect() -> None:
    case = make_case([host_cell(0, 4, 1024)], [(2, 512)], pagesize=-1)
    assert set(reasons(case, answer_with(case, [])).values()) == {None}


def test_other_filters_are_never_explained() -> None:
    case = make_case([host_cell(0, 4, 1024), host_cell(1, 4, 1024)], [(2, 512)], pagesize=-1)
    found = reasons(case, answer_with(case, [], rule="AllHostsFilter"))
    assert found == dict.fromkeys(("alone.AllHostsFilter", "chain.AllHostsFilter", "filtered"))


def test_a_second_difference_later_in_the_chain_is_not_covered_by_the_first() -> None:
    case = make_case([host_cell(0, 4, 1024), host_cell(1, 4, 1024)], [(2, 512)], pagesize=-1)
    case["hosts"].append({**case["hosts"][0], "host": "b", "numa": {"cells": [host_cell(0, 4, 1024)]}})
    case["filters"] = [NUMA, "AllHostsFilter"]
    steps = [{"filter": NUMA, "passed": [["b", "b"]]}, {"filter": "AllHostsFilter", "passed": []}]
    nova = ask_roost(case)
    nova = {**nova, "chain": [nova["chain"][0], *steps], "filtered": []}
    assert reasons(case, nova) == {f"chain.{NUMA}": None, "filtered": None}


def test_an_error_is_never_explained() -> None:
    case = make_case([host_cell(0, 4, 1024), host_cell(1, 4, 1024)], [(2, 512)], pagesize=-1)
    assert reasons(case, {"id": "numa", "error": {"type": "ValueError", "message": ""}}) == {"error": None}
    nova = ask_roost(case)
    nova["alone"] = {**nova["alone"], NUMA: {"error": {"type": "ValueError", "message": ""}}}
    assert reasons(case, nova) == {f"alone.{NUMA}": None}
