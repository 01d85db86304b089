# SPDX-License-Identifier: Apache-2.0
"""The import rules of pyproject.toml, which import-linter checks, name every room of the source."""

from __future__ import annotations

import tomllib
from pathlib import Path

import roost

SOURCE = Path(roost.__file__).parent
CONTRACTS = {
    each["name"]: each
    for each in tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
}
ROOMS = [{name.strip() for name in layer.split("|")} for layer in CONTRACTS["rooms: imports go one way"]["layers"]]
FORMER_NAMES = {"roost.claims", "roost.rpc", "roost.wire"}
"""They only forward to the rooms that have taken their place, and nothing in the source imports them."""


def parts_of_the_source() -> set[str]:
    modules = {each.stem for each in SOURCE.glob("[a-z]*.py")}
    return {f"roost.{name}" for name in modules | {each.parent.name for each in SOURCE.glob("*/__init__.py")}}


def test_every_part_is_a_room_of_the_contract():
    assert parts_of_the_source() == set.union(*ROOMS) | FORMER_NAMES


def test_nothing_imports_a_former_name():
    lines = [line for file in SOURCE.rglob("*.py") for line in file.read_text().splitlines()]
    starts = tuple(f"from {name}{end}" for name in FORMER_NAMES for end in (" ", "."))
    assert [line for line in lines if line.strip().startswith(starts)] == []


def test_no_service_is_let_import_another():
    independent = CONTRACTS["services call one another by messages, never by import"]
    assert set(independent["modules"]) == {"roost.scheduler", "roost.conductor", "roost.compute"}
    assert "ignore_imports" not in independent
