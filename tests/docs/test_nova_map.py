# SPDX-License-Identifier: Apache-2.0
"""The map for people who know nova-scheduler: every place that it names is there."""

import importlib
import re

import pytest

from docs import _commands
from roost.filters import all_filters
from roost.weighers import all_weighers

ROOT = _commands.ROOT
MAP = (ROOT / "docs/explanation/nova-scheduler-map.md").read_text(encoding="utf-8")
PLACES = sorted(set(re.findall(r"`(roost[\w.]*:[\w.]+)`", MAP)))
KNOWN_TO_OPERATORS = (
    "manager",
    "rpcapi",
    "driver",
    "filter_scheduler",
    "chance",
    "caching_scheduler",
    "host_manager",
    "ironic_host_manager",
    "scheduler_options",
    "client",
    "filters",
    "weights",
    "utils",
    "request_filter",
)


@pytest.mark.parametrize("place", PLACES)
def test_what_the_map_names_can_be_imported(place):
    module, _, name = place.partition(":")
    found = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)


def test_there_are_many_places_on_the_map():
    assert len(PLACES) > 60


@pytest.mark.parametrize("name", KNOWN_TO_OPERATORS)
def test_every_file_of_nova_scheduler_is_on_the_map(name):
    left = [line.split("|")[1] for line in MAP.splitlines() if line.startswith("| ")]
    headings = re.findall(r"^## (.*)$", MAP, re.MULTILINE)
    assert any(re.search(rf"\b{name}\b", each) for each in (*left, *headings))


def test_files_that_are_named_by_path_are_there():
    paths = re.findall(r"`(packaging/[\w./-]+)`", MAP)
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("plugin", [*all_filters(), *all_weighers()], ids=lambda plugin: plugin.__name__)
def test_built_in_plugins_are_where_the_map_says(plugin):
    assert plugin.__module__.startswith(("roost.filters.", "roost.weighers."))
