# SPDX-License-Identifier: Apache-2.0
"""Every command that a page shows is run, and prints what the page says it prints."""

import pytest

from docs import _commands

ROOT = _commands.ROOT
PAGES = (
    *("README.md", "docs/tutorial/first-placement.md", "docs/how-to/write-a-filter.md"),
    *("docs/how-to/no-valid-host.md", "docs/how-to/why-this-host.md", "docs/how-to/what-if.md"),
    *("docs/how-to/snapshots.md", "docs/how-to/how-much-room-is-left.md"),
)
SHOWN = [
    pytest.param(shown, id=f"{page}: {shown.command}")
    for page in PAGES
    for shown in _commands.shown_commands((ROOT / page).read_text(encoding="utf-8"))
]


@pytest.fixture(autouse=True)
def _plain_terminal(monkeypatch):
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("shown", SHOWN)
def test_a_shown_command_prints_what_the_page_says(shown: _commands.CommandBlock):
    printed = _commands.run(shown.command)
    assert _commands.is_same(shown.output, printed), f"the page says\n{shown.output}\nthe command says\n{printed}"


@pytest.mark.parametrize("page", PAGES)
def test_every_page_with_commands_shows_at_least_one_with_its_output(page):
    shown = _commands.shown_commands((ROOT / page).read_text(encoding="utf-8"))
    assert any(each.output for each in shown)


def test_the_tutorial_shows_a_success_a_failure_and_a_mistake():
    commands = [each.values[0].output for each in SHOWN]
    assert any("chosen: " in output for output in commands)
    assert any("hosts fit" in output for output in commands)
    assert any("did you mean" in output for output in commands)


def test_times_are_nobodys_promise():
    assert _commands.without_times("11 hosts looked at in 0.43 ms; left out: 1 disabled") == _commands.without_times(
        "11 hosts looked at in 12.70 ms; left out: 1 disabled"
    )
    assert not _commands.is_same("11 hosts looked at in 0.43 ms\n", "12 hosts looked at in 0.43 ms\n")


def test_three_dots_stand_for_any_number_of_lines():
    assert _commands.is_same("a\n...\nd\n", "a\nb\nc\nd\n")
    assert _commands.is_same("a\n...\n", "a\n")
    assert not _commands.is_same("a\n...\nd\n", "a\nb\n")


def test_pasting_anew_changes_only_what_is_wrong():
    page = "Text\n\n```console\n$ roost --version\nroost 0.0.0\n```\n\n```sh\nmake run\n```\n"
    fresh = _commands.with_fresh_output(page)
    assert fresh == page.replace("roost 0.0.0\n", _commands.run("roost --version"))
    assert _commands.with_fresh_output(fresh) == fresh
