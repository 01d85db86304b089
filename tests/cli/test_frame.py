# SPDX-License-Identifier: Apache-2.0
"""The frame of the command: help, version, unknown commands, and what happens when something breaks."""

import pytest

import roost as package
from roost.cli.place import Place


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",), ("help",), ("--debug",), ("-q",)])
def test_the_help_lists_every_command_and_nothing_foreign(roost, arguments):
    done = roost(*arguments)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("usage: roost [options] COMMAND [arguments]\n")
    for command in ("place", "fleet schema", "help", "complete"):
        assert f"\n  {command} " in done.out
    for foreign in ("cliff", "--log-file", "--verbose", "__main__"):
        assert foreign not in done.out


@pytest.mark.parametrize(
    "arguments",
    [
        ("help", "place"),
        ("place", "--help"),
        ("--help", "place"),
        ("place", "-h"),
        ("place", "--fleet", "x", "--help"),
    ],
)
def test_the_help_of_a_command_is_the_same_however_one_asks(roost, arguments):
    done = roost(*arguments)
    assert (done.code, done.err) == (0, "")
    assert done.out == roost("help", "place").out
    assert done.out.startswith("usage: roost place [-h] [--fleet FILE | --from SNAPSHOT | --os-cloud NAME]")
    assert "size: a flavor of the fleet, or its parts:" in done.out


def test_the_help_of_a_command_of_two_words(roost):
    assert roost("help", "fleet", "schema").out.startswith("usage: roost fleet schema")


def test_no_line_of_the_help_is_wider_than_a_terminal(roost):
    assert max(map(len, roost("help", "place").out.splitlines())) <= 80


def test_the_version_is_one_line(roost):
    assert roost("--version").out == f"roost {package.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("plcae",), "unknown command 'plcae' (did you mean place?)"),
        (("fleet",), "unknown command 'fleet' (did you mean fleet export or fleet import or fleet schema?)"),
        (("fleet", "shcema"), "unknown command 'fleet' (did you mean fleet export or fleet import or fleet schema?)"),
        (("xyzzy",), "unknown command 'xyzzy' (see roost help)"),
        (("help", "xyzzy"), "unknown command 'xyzzy' (see roost help)"),
        (("xyzzy", "--help"), "unknown command 'xyzzy'"),
        (("demo",), "unknown command 'demo' (use roost dev --once)"),
        (("help", "demo"), "unknown command 'demo' (use roost dev --once)"),
        (("--verbose", "place"), "unknown command '--verbose'"),
        (("fleet", "schema", "--pretty"), "unknown argument --pretty (see roost fleet schema --help)"),
    ],
)
def test_an_unknown_command_or_argument_is_told_in_one_line(roost, arguments, message):
    roost(*arguments).assert_refused(message)


def test_the_beginning_of_a_name_will_do(roost):
    assert "the size of the instance is missing" in roost("plac").err


def test_completion_for_bash_knows_the_commands(roost):
    out = roost("complete").out
    assert "_roost()" in out
    assert "cmds_place=" in out


# --- when something breaks ---------------------------------------------------------------------------


@pytest.fixture
def broken(monkeypatch):
    def fail(*_):
        raise TypeError("this should\nnot happen")

    monkeypatch.setattr(Place, "report", fail)


def test_a_mistake_of_ours_is_one_line_and_asks_for_a_report(roost, broken):
    done = roost("place", "--fleet", "x")
    done.assert_refused("roost: internal error: TypeError: this should not happen", "please report it", code=70)


def test_debug_shows_the_traceback(roost, broken):
    done = roost("place", "--fleet", "x", "--debug")
    assert done.code == 70
    assert "Traceback (most recent call last)" in done.err


def test_an_interrupt_is_silent(roost, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Place, "report", interrupt)
    done = roost("place", "--fleet", "x")
    assert (done.code, done.out, done.err) == (130, "", "")


def test_a_control_character_in_an_error_does_not_reach_the_terminal(roost):
    done = roost("place", "--fleet", "\x1b[31mred\n.yaml", "--vcpus", 1, "--ram", 1)
    done.assert_refused("cannot be read")
    assert "\x1b" not in done.err
