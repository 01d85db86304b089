# SPDX-License-Identifier: Apache-2.0
"""What people wrote by hand points at things that exist."""

import re
import tomllib

import pytest

from docs import _commands

ROOT = _commands.ROOT
README = (ROOT / "README.md").read_text(encoding="utf-8")
ROAD = (ROOT / "docs/explanation/the-road-of-one-request.md").read_text(encoding="utf-8")
DECISIONS = sorted((ROOT / "docs/adr").glob("[0-9]*.md"))
SOURCES = sorted((ROOT / "src/roost").rglob("*.py"))


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_every_link_to_a_file_leads_somewhere(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
    assert links
    assert [link for link in links if not (ROOT / link.partition("#")[0]).exists()] == []


def test_the_first_screen_of_the_readme_has_all_it_should_and_in_order():
    first_screen = README.partition("\n---\n")[0]
    wanted = [
        "git clone",
        "make run",
        "make test",
        "pip install .",
        "$ roost place",
        "class myFilter",
        "enabled_filters",
    ]
    wanted += ["docs/tutorial/", "docs/how-to/", "docs/reference/", "docs/explanation/"]
    found = [first_screen.find(each) for each in wanted]
    assert -1 not in found
    assert found == sorted(found)


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/tutorial/first-placement.md"])
def test_every_make_target_that_is_named_exists(page):
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = re.findall(r"^make ([a-z]+)|`make ([a-z]+)`", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    assert named
    assert {plain or quoted for plain, quoted in named} <= targets


def test_every_file_and_folder_on_the_road_exists():
    named = set(re.findall(r"`([a-z_/]+(?:\.py|/))`", ROAD))
    assert len(named) > 15
    assert sorted(name for name in named if not (ROOT / "src/roost" / name).exists()) == []


def test_every_function_on_the_road_exists_in_the_file_beside_it():
    pairs = re.findall(r"`(\w+)\(\)` in `([\w/.]+)`", ROAD)
    assert len(pairs) >= 6
    for function, path in pairs:
        assert f"def {function}(" in (ROOT / "src/roost" / path).read_text(encoding="utf-8")


def test_the_six_stage_words_are_on_the_road_in_order():
    found = re.findall(r"^\| \*\*(\w+)\*\* \|", ROAD, re.MULTILINE)
    assert found == ["prefilter", "capacity", "filter", "weigh", "choose", "claim"]


def test_every_folder_of_the_source_is_on_the_road():
    folders = {
        path.parent.name
        for path in SOURCES
        if path.parent.parent == ROOT / "src/roost" and path.name != "__init__.py"
    }
    assert {folder for folder in folders if f"`{folder}/" not in ROAD} == set()


def test_nothing_that_is_built_is_said_to_be_missing():
    missing = re.findall(r"`(\w+)`", ROAD.partition("Not built yet:")[2])
    assert missing
    assert [name for name in missing if (ROOT / "src/roost" / name).exists()] == []


def test_the_order_of_imports_on_the_road_has_all_layers_of_stations():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each["type"] == "layers")
    stations = re.findall(r"^\| \d+ \| `(\w+)/`", ROAD, re.MULTILINE)
    order = ROAD.partition("**Imports go one way:**")[2].partition("Plumbing")[0]
    found = [name for layer in layers for name in re.findall(r"roost\.(\w+)", layer) if name in stations]
    assert [name for name in found if f"`{name}`" not in order] == []


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.stem)
def test_a_decision_says_context_decision_and_consequence(page):
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"# {page.stem[:4]}: ")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == ["Context", "Decision", "Consequence"]
    assert len(text.split()) < 400  # half a page


def test_decisions_are_numbered_without_gaps():
    assert [int(page.stem[:4]) for page in DECISIONS] == list(range(1, len(DECISIONS) + 1))


def test_every_tool_for_development_is_in_a_decision():
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    text = "\n".join(page.read_text(encoding="utf-8") for page in DECISIONS).lower().replace("myst", "myst-parser")
    assert [name for name in groups["dev"] if re.split(r"[<>=\[]", name)[0].lower() not in text] == []


def test_changelog_fragments_have_an_issue_and_a_legal_kind():
    kinds = [
        each["directory"]
        for each in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]["type"]
    ]
    legal = re.compile(rf"\d+\.({'|'.join(kinds)})(\.\d+)?\.md")
    names = [path.name for path in (ROOT / "changelog.d").iterdir() if not path.name.startswith(".")]
    assert names
    assert [name for name in names if not legal.fullmatch(name)] == []


def test_every_difference_from_nova_comes_with_its_reason():
    text = (ROOT / "docs/reference/differences.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ")][2:]
    assert len(rows) >= 15
    for row in rows:
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        assert len(cells) == 4, row
        assert all(cells), row
