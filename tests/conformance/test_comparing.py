# SPDX-License-Identifier: Apache-2.0
"""The comparison finds what differs, and only that."""

from __future__ import annotations

from typing import Any

from conformance.comparing import compare

A, B = ["a", "a"], ["b", "b"]
PASSED = {"chain": [{"filter": None, "passed": [A, B]}, {"filter": "RamFilter", "passed": [A]}], "filtered": [A]}
ANSWER = {"id": "1", "alone": {"RamFilter": [A]}, **PASSED}


def error(kind: str, message: str = "") -> dict[str, str]:
    return {"type": kind, "message": message}


def places(nova: dict[str, Any], roost: dict[str, Any], only_recorded: bool = False) -> list[str]:
    return [each.place for each in compare(nova, roost, only_recorded)]


def changed(**parts: Any) -> dict[str, Any]:
    return {**ANSWER, **parts}


def test_equal_answers_have_no_difference() -> None:
    assert compare(ANSWER, changed()) == []


def test_a_filter_that_passes_other_hosts_is_named() -> None:
    (found,) = compare(ANSWER, changed(alone={"RamFilter": [A, B]}))
    assert (found.place, found.nova, found.roost) == ("alone.RamFilter", [A], [A, B])


def test_order_of_hosts_counts() -> None:
    assert places(changed(filtered=[A, B]), changed(filtered=[B, A])) == ["filtered"]


def test_of_errors_only_the_type_counts() -> None:
    nova = {"id": "1", "error": error("ValueError", "one")}
    assert places(nova, {"id": "1", "error": error("ValueError", "two")}) == []
    assert places(nova, {"id": "1", "error": error("KeyError", "one")}) == ["error"]
    raised = changed(alone={"RamFilter": {"error": error("ValueError", "one")}})
    assert places(raised, changed(alone={"RamFilter": {"error": error("ValueError", "two")}})) == []
    assert places(raised, changed(alone={"RamFilter": {"error": error("KeyError")}})) == ["alone.RamFilter"]


def test_an_error_on_one_side_only_is_one_difference() -> None:
    failed = {"id": "1", "error": error("ValueError")}
    assert places(failed, ANSWER) == ["error"]
    assert places(ANSWER, failed) == ["error"]


def test_a_chain_is_blamed_on_the_first_filter_that_differs() -> None:
    steps = [*PASSED["chain"], {"filter": "DiskFilter", "passed": []}]
    other = [steps[0], {"filter": "RamFilter", "passed": [B]}, {"filter": "DiskFilter", "passed": [B]}]
    assert places(changed(chain=steps), changed(chain=other)) == ["chain.RamFilter"]


def test_a_chain_that_ends_early_differs_at_the_next_filter() -> None:
    assert places(ANSWER, changed(chain=PASSED["chain"][:1])) == ["chain.RamFilter"]
    assert places(changed(chain=[]), ANSWER) == ["chain"]


def test_a_filter_error_instead_of_hosts_is_a_difference() -> None:
    raised = changed(filter_error=error("ValueError"))
    del raised["filtered"]
    assert places(ANSWER, raised) == ["filtered", "filter_error"]
    assert places(raised, ANSWER) == ["filtered", "filter_error"]


def test_what_rocky_leaves_out_is_not_looked_at() -> None:
    recorded = {"id": "1", "alone": {"RamFilter": [A]}}
    extra = changed(alone={"RamFilter": [A], "DiskFilter": [B]})
    assert places(recorded, extra, only_recorded=True) == []
    assert places(recorded, extra) == ["alone.DiskFilter", "chain", "filtered"]


def test_rocky_selections_have_no_zone() -> None:
    recorded = changed(selections=[[A, B]])
    answer = changed(selections=[[[*A, "nova"], [*B, "nova"]]])
    assert places(recorded, answer, only_recorded=True) == []
    assert places(recorded, answer) == ["selections"]


def test_weights_selections_and_what_they_consumed_are_compared_too():
    assert places(changed(consumed=[{"free_ram_mb": 1}]), changed(consumed=[{"free_ram_mb": 2}])) == ["consumed"]
    assert places(ANSWER, changed(order=[A])) == ["order"]
    assert places(changed(selections=[]), ANSWER) == ["selections"]


def test_weights_may_differ_by_a_billionth() -> None:
    recorded = changed(weights=[[*A, 3.0], [*B, 0.0]])
    assert places(recorded, changed(weights=[[*A, 3.0 + 1e-9], [*B, 0.0]])) == []
    assert places(recorded, changed(weights=[[*A, 3.0 + 1e-8], [*B, 0.0]])) == ["weights"]
    assert places(recorded, changed(weights=[[*A, 3.0]])) == ["weights"]


def test_raw_weights_are_compared_weigher_by_weigher() -> None:
    recorded = changed(raw_weights={"RAMWeigher": {"raw": [1.0], "multiplier": [1.0]}})
    assert places(recorded, changed(raw_weights={"RAMWeigher": {"raw": [1], "multiplier": [1]}})) == []
    other = {"RAMWeigher": {"raw": [1.0], "multiplier": [2.0]}, "CPUWeigher": {"raw": [0.0], "multiplier": [1.0]}}
    assert places(recorded, changed(raw_weights=other)) == ["raw_weights.RAMWeigher", "raw_weights.CPUWeigher"]


def test_failed_selections_are_compared_by_type() -> None:
    nothing = changed(selections={"error": error("NoValidHost", "one")})
    assert places(nothing, changed(selections={"error": error("NoValidHost", "two")})) == []
    assert places(nothing, changed(selections=[[[*A, "nova"]]])) == ["selections"]
