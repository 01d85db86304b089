# SPDX-License-Identifier: Apache-2.0
"""The reference is written from the code: everything that is registered is in it."""

import pytest

from docs import _command_page, _commands, _generate
from roost.api.routes import ROUTES
from roost.cli.commands import COMMANDS
from roost.errors import RoostError
from roost.options.declare import declared
from roost.plugins.registry import FILTERS, WEIGHERS
from roost.scheduler.all_options import option_owners
from roost.sources.fields import HOST_FIELDS, fleet_schema

ROOT = _commands.ROOT
OPTIONS = [option for owner in option_owners() for option in declared(owner)]


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reference")
    _generate.write_reference(folder)
    return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}


@pytest.mark.parametrize("plugin", FILTERS)
def test_every_filter_has_a_section_with_its_docstring(reference, plugin):
    assert f"## {plugin.__name__}\n\n{plugin.__doc__.splitlines()[0]}" in reference["filters.md"]


@pytest.mark.parametrize("plugin", WEIGHERS)
def test_every_weigher_has_a_section_with_its_docstring(reference, plugin):
    assert f"## {plugin.__name__}\n\n{plugin.__doc__.splitlines()[0]}" in reference["weighers.md"]


@pytest.mark.parametrize("plugin", [*FILTERS, *WEIGHERS])
def test_every_plugin_names_the_columns_it_reads_and_its_options(reference, plugin):
    page = reference["filters.md" if plugin in FILTERS else "weighers.md"]
    section = page.partition(f"## {plugin.__name__}\n")[2].partition("\n## ")[0]
    for column in plugin.reads:
        assert f"`{column}`" in section
    for option in declared(plugin.Options) if plugin.Options else ():
        assert f"`[{option.group}] {option.name}`" in section


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_every_option_is_listed_with_its_meaning_and_its_old_names(reference, option):
    section = reference["options.md"].partition(f"## [{option.group}]")[2].partition("\n## ")[0]
    row = next(line for line in section.splitlines() if line.startswith(f"| `{option.name}` |"))
    assert option.help in row
    for group, name in option.old:
        assert f"`[{group}] {name}`" in row


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_section_with_all_its_arguments(reference, command):
    section = reference["command.md"].partition(f"## roost {command}\n")[2].partition("\n## ")[0]
    assert section.strip()
    kind = dict(_command_page.commands())[command]
    parser = kind(_command_page.command_frame.Roost(), None, cmd_name=command).get_parser("roost")
    for spelling in parser._option_string_actions.keys() - {"-h", "--help"}:
        assert f"`{spelling}`" in section


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_every_url_is_listed_with_its_rule(reference, route):
    row = next(
        line for line in reference["api.md"].splitlines() if line.startswith(f"| `{route.method} {route.path}` |")
    )
    assert all(f"`{rule}`" in row for rule in route.rules)
    assert ("| public |" in row) == (route.rule is None)


def test_every_url_of_roosts_own_has_a_section_with_an_example(reference):
    for route in ROUTES:
        if route.form is not None:
            section = reference["api.md"].partition(f"\n### {route.method} {route.path}\n")[2]
            assert "```json" in section.partition("\n### ")[0]


def test_what_help_hides_is_said_to_be_for_internal_use(reference):
    assert "SUPPRESS" not in reference["command.md"]
    assert "| `--worker` `WORKER` | for the command's own use" in reference["command.md"]


def test_every_field_of_a_host_is_listed(reference):
    for name, field in HOST_FIELDS.items():
        assert f"| `{name}`" in reference["fleet-file.md"]
        assert field.meaning in reference["fleet-file.md"]


def test_every_section_of_a_fleet_file_is_listed(reference):
    for name in fleet_schema()["properties"]:
        assert f"\n## {name}\n" in reference["fleet-file.md"]


def test_every_error_is_listed_with_its_code(reference):
    _generate.import_all()
    for _, kind in _generate.tree(RoostError):
        assert f"`{kind.__name__}` | `{kind.code}` |" in reference["errors.md"]


def test_the_exit_codes_are_those_the_command_gives(reference):
    assert "`NoValidHost` | `roost.no_valid_host` | 1 |" in reference["errors.md"]
    assert "`BadInput` | `roost.bad_input` | 2 |" in reference["errors.md"]
    assert "`PluginFailed` | `roost.plugin_failed` | 3 |" in reference["errors.md"]
    assert "`ServiceUnavailable` | `roost.service_unavailable` | 4 |" in reference["errors.md"]
    failed = "- 1 no host fits or all or part of a change failed or a check found something\n"
    assert failed in reference["command.md"]


def test_every_generated_page_is_in_the_table_of_contents(reference):
    index = (ROOT / "docs/reference/index.md").read_text(encoding="utf-8")
    assert {name for name in reference if f"(generated/{name})" in index} == set(_generate.PAGES)


def test_a_page_that_did_not_change_is_not_written_again(tmp_path):
    _generate.write_reference(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    _generate.write_reference(tmp_path)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before
