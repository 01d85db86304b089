# SPDX-License-Identifier: Apache-2.0
"""Roost answers every recorded case as nova did."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path

import pytest
import yaml
from conformance.asking import ask_roost
from conformance.comparing import compare
from conformance.tally import describe

FOLDER = Path(__file__).parent
ONLY_RECORDED = {"nova34": False, "edge": False, "rocky": True}
"""The files; Rocky's answers leave out what a modern scheduler should not equal."""
CHUNKS = 12
"""Tests that share the work: pytest-xdist hands out tests, not cases."""
EXCEPTIONS = yaml.safe_load((FOLDER / "exceptions.yaml").read_text())


@cache
def read_lines() -> list[tuple[str, str]]:
    lines = []
    for name in ONLY_RECORDED:
        with gzip.open(FOLDER / f"{name}.jsonl.gz", "rt") as recorded:
            lines += [(name, line) for line in recorded]
    return lines


def check(name: str, line: str) -> str:
    """What is wrong with Roost's answer, or nothing."""
    record = json.loads(line)
    case = record["case"]
    found = compare(record["answer"], ask_roost(case), ONLY_RECORDED[name])
    known = EXCEPTIONS.get(case["id"], {}).get("differs", [])
    if [each.place for each in found] == known:
        return ""
    if not found:
        return f"{case['id']} in {name}: no difference any more; take it out of exceptions.yaml"
    return "\n".join(describe(each, "exceptions.yaml" if each.place in known else None) for each in found)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_roost_answers_as_nova_did(chunk: int) -> None:
    wrong = [said for name, line in read_lines()[chunk::CHUNKS] if (said := check(name, line))]
    assert not wrong, f"{len(wrong)} cases:\n" + "\n".join(wrong)


def test_all_recorded_cases_are_there() -> None:
    assert len(read_lines()) == 1140 + 398 + 1991


def test_every_exception_is_a_recorded_case_with_a_reason() -> None:
    lines = [line for _, line in read_lines()]
    assert all(any(f'"{case_id}"' in line for line in lines) for case_id in EXCEPTIONS)
    assert all(each["differs"] and each["because"] for each in EXCEPTIONS.values())
