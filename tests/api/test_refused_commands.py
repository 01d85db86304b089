# SPDX-License-Identifier: Apache-2.0
"""What is refused has changed nothing (D31): every command of the program, with right and with wrong arguments.

The commands, their options and their columns are those of the program itself. A command that `CommandSamples` cannot
call and an option for output whose wrong form is not known here are failures.
"""

import json
import os
from pathlib import Path

import pytest
from sqlalchemy import select
from tests.api.cloud import ApiCloud
from tests.api.command_samples import CommandSamples

from roost.cli.main import Roost, main
from roost.cli.output import FORMATS
from roost.store.schema import metadata

COMMANDS = sorted(name for name, _ in Roost().command_manager)
OUTPUT = {"-f": [["-f", "nonsense"], ["-f", ""]], "-c": [["-c", "nonsense"], ["-c", ""]]}
"""Option for output -> its wrong forms."""
TIMES = {"report_count", "last_seen_up", "updated_at"}
"""Columns of heartbeats, and of when a row was written, which is also done to take something back."""
LATE = {
    "heartbeat_probes",
    "scheduler_runs",
    "decisions",
    "decision_servers",
    "table_changes",
    "table_checkpoints",
} | {
    "compute_nodes",
    "changes",
}
"""Tables in which schedulers and agents record what they did or see: rows come later than what they are about."""


@pytest.fixture(scope="module")
def cloud(tmp_path_factory):
    """A cloud in which nothing goes on besides."""
    made = ApiCloud(tmp_path_factory.mktemp("cloud"))
    yield made
    made.stop()


@pytest.fixture(scope="module")
def samples(cloud):
    return CommandSamples(cloud)


@pytest.fixture(autouse=True)
def _asked(cloud, tmp_path, monkeypatch):
    """An empty folder, and the cloud named by its address, with a token: signing in takes longer than a command."""
    monkeypatch.chdir(tmp_path)
    for name in [each for each in os.environ if each.startswith("OS_")]:
        monkeypatch.delenv(name)
    for name, value in {
        "AUTH_TYPE": "admin_token",
        "ENDPOINT": cloud.address,
        "TOKEN": cloud.tokens["admin"],
    }.items():
        monkeypatch.setenv(f"OS_{name}", value)


@pytest.fixture
def state(cloud):
    """All that commands could have changed: the database of the cloud, and the files in the present folder."""

    def read():
        with cloud.dev.engine.connect() as connection:
            tables = {
                each.name: sorted(map(str, connection.execute(select(*_lasting(each)))))
                for each in metadata.sorted_tables
                if each.name not in LATE
            }
        files = {str(each): each.read_bytes() if each.is_file() else None for each in Path().rglob("*")}
        return {**tables, **files}

    return read


def _lasting(table):
    return [each for each in table.columns if each.name not in TIMES]


@pytest.fixture
def run(capsys):
    def run(command, *arguments):
        code = main([*command.split(), *arguments])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def sample_of(samples):
    def find(command):
        make = getattr(samples, command.replace(" ", "_").replace("-", "_"), None)
        assert make, f"CommandSamples has no method for `roost {command}`"
        return make()

    return find


def parser_of(command):
    app = Roost()
    kind, name, _ = app.command_manager.find_command(command.split())
    return kind(app, app.options, cmd_name=name).get_parser(command)


def output_options(parser):
    return [each for group in parser._action_groups if group.title == "output" for each in group._group_actions]


def wrong_forms(parser):
    """Arguments that no command takes, one wrong form after the other of each option that the command has."""
    yield ["--nonsense"]
    for action in output_options(parser):
        assert action.option_strings[0] in OUTPUT, f"no wrong form of {action.option_strings} is known here"
        yield from OUTPUT[action.option_strings[0]]
    for action in parser._actions:
        for text in ("", "nonsense", "-1"):
            if action.option_strings and action not in output_options(parser) and is_refused(parser, action, text):
                yield [f"{action.option_strings[-1]}={text}"]


def is_refused(parser, action, text):
    """Whether an option does not take this value."""
    if action.nargs == 0:
        return True
    try:
        value = parser._get_value(action, text)
        parser._check_value(action, value)
    except Exception:
        return True
    return False


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_is_refused_has_changed_nothing(command, sample_of, state, run):
    sample = sample_of(command)
    before, tried = state(), []
    for form in [*wrong_forms(parser_of(command)), *sample.wrong]:
        code, out, problem = run(command, *sample.words, *form)
        assert (code, out, problem.count("\n")) == (2, "", 1), f"{form}: {problem}"
        tried.append(form)
    after = state()
    assert {name: after.get(name) for name in before | after if after.get(name) != before.get(name)} == {}, tried


@pytest.mark.parametrize("command", [each for each in COMMANDS if output_options(parser_of(each))])
def test_columns_are_named_by_title_or_field_and_are_those_of_the_answer(command, sample_of, run):
    """What `-c` may name is known before the command runs; whatever is promised there is in its answer."""
    for more in ([], ["--dry-run"]) if "--dry-run" in parser_of(command)._option_string_actions else ([],):
        sample = sample_of(command)
        columns = columns_of(command, [*sample.words, *more])
        for shape in FORMATS if columns is None else ("json",):
            words = [word for title, field in (columns or {}).items() for word in ("-c", title.upper(), "-c", field)]
            code, out, problem = run(command, *sample.words, *more, "-f", shape, *words)
            assert (code in sample.codes, out > "", problem) == (True, True, ""), problem
            if columns is not None:
                answer = json.loads(out)
                assert all(list(each) == list(columns) for each in (answer if isinstance(answer, list) else [answer]))


@pytest.mark.parametrize("noun", ["flavor", "image", "aggregate", "server-group", "server", "host"])
def test_all_fields_of_an_object_can_be_named(noun, sample_of, run):
    command = f"{noun} show"
    words = sample_of(command).words
    code, out, problem = run(command, *words, "-f", "json")
    assert (code, problem) == (0, "")
    assert json.loads(out).keys() == columns_of(command, words).keys()


def columns_of(command, words):
    app = Roost()
    kind, name, _ = app.command_manager.find_command(command.split())
    made = kind(app, app.options, cmd_name=name)
    return made.columns_for(made.get_parser(command).parse_args(words))
