# SPDX-License-Identifier: Apache-2.0
"""The import rules of pyproject.toml, which import-linter checks, name every part of the source."""

from __future__ import annotations

import tomllib
from pathlib import Path

import roost

SOURCE = Path(roost.__file__).parent
CONTRACTS = {
    each["name"]: each
    for each in tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
}
LAYERS = [
    {name.strip() for name in layer.split("|")} for layer in CONTRACTS["stations: imports go one way"]["layers"]
]
PLUMBING = CONTRACTS["plumbing imports no station"]
BASE = {f"roost.{name}" for name in ("class_name", "clock", "errors", "options", "plugin_remedies", "validation")}
"""What plumbing may import."""


def parts_of_the_source() -> set[str]:
    modules = {each.stem for each in SOURCE.glob("[a-z]*.py")}
    return {f"roost.{name}" for name in modules | {each.parent.name for each in SOURCE.glob("*/__init__.py")}}


def test_every_part_is_in_a_layer_or_is_plumbing():
    assert parts_of_the_source() == set.union(*LAYERS) | set(PLUMBING["source_modules"])


def test_plumbing_may_import_no_part_that_is_in_a_layer_but_the_base():
    in_layers = set.union(*LAYERS) - set(PLUMBING["source_modules"])

    assert set(PLUMBING["forbidden_modules"]) == in_layers - BASE


def test_no_service_is_let_import_another():
    ignored = [
        each for contract in CONTRACTS.values() for each in contract.get("ignore_imports", ()) if "scheduler" in each
    ]

    assert {"roost.scheduler", "roost.conductor", "roost.compute"} in LAYERS
    assert ignored == []
