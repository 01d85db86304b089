# SPDX-License-Identifier: Apache-2.0
"""docs/explanation/where-is.md: each answer names a file that is there, and a name that the file defines."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = re.findall(
    r"^\| (.+\?) \| `([\w/.]+)` \| `([\w.]+)` \|$", (ROOT / "docs/explanation/where-is.md").read_text(), re.MULTILINE
)


def names_in(body):
    """Names that statements define, those of methods with their class."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield node.name
            yield from (f"{node.name}.{each}" for each in names_in(node.body))
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (each.id for each in targets if isinstance(each, ast.Name))


@pytest.mark.parametrize(("question", "file", "name"), ROWS, ids=[row[0] for row in ROWS])
def test_the_file_that_answers_defines_the_name(question, file, name):
    assert name in set(names_in(ast.parse((ROOT / "src/roost" / file).read_text()).body))


def test_there_are_at_least_twenty_questions():
    assert len(ROWS) >= 20
