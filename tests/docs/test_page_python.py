# SPDX-License-Identifier: Apache-2.0
"""The Python, the configuration and the fleets that pages show: they work as they stand there."""

import contextlib
import io
import re
import sys
from collections import Counter

import jsonschema
import pytest
import yaml

from docs import _commands
from roost import Fleet
from roost.sources.fields import fleet_schema

ROOT = _commands.ROOT
PAGES = ("README.md", "docs/how-to/write-a-filter.md", "docs/how-to/how-much-room-is-left.md")
_PRINT = re.compile(r"^ *print\(.*\) +# (.*)$", re.MULTILINE)


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.fixture
def no_my_filter(monkeypatch):
    """Forget the module of that name before and after: another file is about to take it."""
    monkeypatch.delitem(sys.modules, "my_filter", raising=False)
    yield
    sys.modules.pop("my_filter", None)


@pytest.mark.parametrize("page", PAGES)
def test_the_python_of_a_page_runs_and_prints_what_its_comments_say(page, monkeypatch):
    monkeypatch.chdir(ROOT)
    namespace = {"__name__": "page"}
    for source in blocks(page, "python"):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(source, page, "exec"), namespace)
        assert printed.getvalue().splitlines() == _PRINT.findall(source)


def test_the_readme_shows_a_filter_in_four_lines_and_four_lines_that_enable_it():
    assert len(blocks("README.md", "python")[0].splitlines()) == 4
    assert len(blocks("README.md", "ini")[0].splitlines()) == 4


def test_the_filter_of_the_readme_works_with_the_configuration_of_the_readme(tmp_path, no_my_filter):
    (tmp_path / "my_filter.py").write_text(blocks("README.md", "python")[0])
    (tmp_path / "nova.conf").write_text(blocks("README.md", "ini")[0])
    request = "--vcpus 2 --ram 32768 --alternates 0"
    printed = _commands.run(f"roost place --fleet examples/fleet.yaml --config-file {tmp_path}/nova.conf {request}")
    assert "3 myFilter" in printed  # exactly 32768 MiB are free there, and it wants more


def test_the_configuration_in_examples_is_that_of_the_readme():
    lines = (ROOT / "examples/nova.conf").read_text().splitlines()
    assert [line for line in lines if not line.startswith("#")] == blocks("README.md", "ini")[0].splitlines()


def test_the_configuration_of_the_how_to_works(tmp_path, no_my_filter):
    (tmp_path / "my_filter.py").write_text((ROOT / "examples/my_filter.py").read_text())
    (tmp_path / "nova.conf").write_text(blocks("docs/how-to/write-a-filter.md", "ini")[0])
    printed = _commands.run(
        f"roost explain --fleet examples/fleet.yaml --config-file {tmp_path}/nova.conf --flavor small --long"
    )
    assert "its SSDs are for those who ask for them" in printed


@pytest.mark.parametrize("text", blocks("docs/how-to/fleet-file.md", "yaml"))
def test_a_fleet_that_a_page_shows_can_be_loaded(text):
    document = yaml.safe_load(text)
    jsonschema.validate(document, fleet_schema())
    assert len(Fleet.load(document).table) >= 1


def test_the_example_fleet_fits_its_published_schema():
    jsonschema.validate(yaml.safe_load((ROOT / "examples/fleet.yaml").read_text()), fleet_schema())


def test_the_example_fleet_has_something_of_everything():
    fleet = Fleet.load(ROOT / "examples/fleet.yaml")
    assert len(fleet.table) == 11
    assert fleet.zones() == {"north", "south"}
    assert Counter("true" in each for each in fleet.table.aggregate_values("ssd")) == {True: 3, False: 8}
    assert (len(fleet.flavors), len(fleet.images), len(fleet.server_groups)) == (3, 1, 1)
    assert fleet.options
