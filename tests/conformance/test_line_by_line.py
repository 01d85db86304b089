# SPDX-License-Identifier: Apache-2.0
"""`python -m roost.testing.vectors` as other programs use it: kept open, one line at a time."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from threading import Timer
from typing import Any

import pytest

Ask = Callable[[str], dict[str, Any]]
REQUEST = {"flavor": {"vcpus": 1, "memory_mb": 512, "root_gb": 0, "ephemeral_gb": 0, "swap": 0}, "image": None}
CASE = {"id": "one", "hosts": [{"host": "a"}, {"host": "b"}], "request": REQUEST, "filters": ["ComputeFilter"]}


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    command = [sys.executable, "-m", "roost.testing.vectors"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        stuck = Timer(60, process.kill)  # an answer that is not flushed would be waited for without end
        stuck.start()

        def write_and_read(line: str) -> dict[str, Any]:
            process.stdin.write(line + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield write_and_read
        process.stdin.close()
        assert process.stdout.read() == ""
        assert process.wait() == 0
        stuck.cancel()


def test_each_line_is_answered_before_the_next_is_written(ask: Ask) -> None:
    for number in range(3):
        answer = ask(json.dumps({**CASE, "id": f"case {number}"}))
        assert answer["id"] == f"case {number}"
        assert answer["filtered"] == [["a", "a"], ["b", "b"]]


@pytest.mark.parametrize(
    "broken",
    [
        {"filters": ["NoSuchFilter"]},
        {"options": {"no_such_option": 1}},
        {"options": {"max_io_ops_per_host": "many"}},
        {"hosts": [{"host": "a", "colour": "blue"}]},
        {"hosts": ["a"]},
        {"hosts": [{"host": "a"}, {"host": "a"}]},
        {"request": None},
        {"request": {**REQUEST, "numa_topology": {"cells": []}}},
    ],
    ids=lambda broken: json.dumps(broken)[:40],
)
def test_a_case_that_cannot_be_set_up_gives_only_id_and_error(ask: Ask, broken: dict[str, Any]) -> None:
    answer = ask(json.dumps({**CASE, **broken}))
    assert answer.keys() == {"id", "error"}
    assert answer["id"] == "one"
    assert answer["error"].keys() == {"type", "message"}


@pytest.mark.parametrize("line", ["{", "[]", "3"])
def test_a_line_that_is_no_case_does_not_end_the_conversation(ask: Ask, line: str) -> None:
    assert ask(line).keys() == {"id", "error"}
    assert ask(json.dumps(CASE))["filtered"] == [["a", "a"], ["b", "b"]]


def test_a_line_of_the_recorded_files_is_answered_as_its_case(ask: Ask) -> None:
    assert ask(json.dumps({"case": CASE, "answer": {}})) == ask(json.dumps(CASE))


def test_empty_lines_are_passed_over(ask: Ask) -> None:
    assert ask("\n" + json.dumps(CASE))["id"] == "one"
