# SPDX-License-Identifier: Apache-2.0
"""Bounds on the shape of the source that stay: no import cycles, no large modules, one meaning a class name."""

import ast
import io
import statistics
import tokenize
from collections import defaultdict
from pathlib import Path

import roost

SOURCE = Path(roost.__file__).parent
LARGEST_MODULE, SMALLEST_MEDIAN, MOST_NAMES_TWICE = 400, 110, 2
NOT_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENDMARKER, tokenize.ENCODING),
}
OWN_NAMES = ("roost.cli.", "roost.api.")
"""Rooms whose forms and commands are named for what they show, so they may repeat the names of records."""


def name_of(path):
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PATHS = {name_of(path): path for path in SOURCE.rglob("*.py")}
TREES = {name: ast.parse(path.read_text()) for name, path in PATHS.items()}


def code_lines(name):
    """Lines with a token that is no comment, blank or docstring."""
    docstrings = {
        line
        for node in ast.walk(TREES[name])
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, node.end_lineno + 1)
    }
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(PATHS[name].read_text()).readline):
        if token.type not in NOT_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstrings)


def imports_of(name):
    """Modules of roost that are imported when this one is; those under TYPE_CHECKING and in functions are not."""
    found, nodes = set(), list(TREES[name].body)
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{each.name}" for each in node.names}
            found |= {each if each in PATHS else node.module for each in names}
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) and not (
            isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        ):
            nodes += list(ast.iter_child_nodes(node))
    return (found & set(PATHS)) - {name}


def test_no_module_is_large_and_few_are_tiny():
    sizes = {name: code_lines(name) for name in PATHS}
    assert {name: size for name, size in sizes.items() if size > LARGEST_MODULE} == {}
    real = [size for name, size in sizes.items() if size >= 5 or PATHS[name].name != "__init__.py"]
    assert statistics.median(real) >= SMALLEST_MEDIAN


def test_no_modules_import_one_another_in_a_circle():
    left = {name: imports_of(name) for name in PATHS}
    while ready := {name for name, needed in left.items() if not needed & set(left)}:
        left = {name: needed for name, needed in left.items() if name not in ready}
    assert left == {}


def test_a_class_name_has_one_meaning():
    places = defaultdict(set)
    for name, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and node.name != "Options" and not node.name.startswith("_"):
                places[node.name].add(name)
    twice = {
        each: where
        for each, where in places.items()
        if len([name for name in where if not name.startswith(OWN_NAMES)]) > 1
    }
    assert len(twice) <= MOST_NAMES_TWICE, twice  # NoValidHost and RequestContext are nova's names, for plugins, too
