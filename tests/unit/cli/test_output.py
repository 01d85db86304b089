# SPDX-License-Identifier: Apache-2.0
"""Reports in every format."""

import json
from dataclasses import replace

import numpy as np
import pytest
import yaml

from roost.cli.output import FORMATS, Report, console, plain, print_report
from roost.cli.server_report import record_report
from roost.errors import BadInput

REPORT = Report(
    record={"a": [1, None]},
    columns=("Name", "Number", "Dull"),
    rows=[("one", 1.0, 0), ("[red]two", -0.00001, 0)],
    caption="two things",
    minor=frozenset({"Dull"}),
)


@pytest.fixture
def printed(capsys):
    def run(shape, wanted=(), report=REPORT, is_quiet=False):
        print_report(report, shape, wanted, is_quiet)
        return capsys.readouterr().out

    return run


def test_programs_get_the_record(printed):
    assert json.loads(printed("json")) == {"a": [1, None]}
    assert yaml.safe_load(printed("yaml")) == {"a": [1, None]}


def test_the_answer_in_one_sentence_comes_first_for_people_alone(printed):
    report = replace(REPORT, lead="Two of [two].")
    assert printed("table", report=report).splitlines()[0] == "Two of [two]."
    assert "Two of" not in printed("table", report=report, is_quiet=True) + printed("csv", report=report)


def test_people_get_what_says_something(printed):
    out = printed("table")
    assert "Dull" not in out
    assert "[red]two" in out
    assert "0.0000" in out
    assert "-0.0000" not in out
    assert out.endswith("two things\n")


def test_a_dull_column_is_shown_to_those_who_ask(printed):
    assert "Dull" in printed("table", ["dull"])


def test_quiet_leaves_out_the_caption(printed):
    assert "two things" not in printed("table", is_quiet=True)


def test_csv_and_value_have_every_column(printed):
    assert printed("csv").splitlines() == ["Name,Number,Dull", "one,1.0,0", "[red]two,-1e-05,0"]
    assert printed("value").splitlines() == ["one 1.0000 0", "[red]two 0.0000 0"]


@pytest.mark.parametrize("shape", FORMATS)
def test_an_unknown_column_is_an_error_in_every_format(printed, shape):
    with pytest.raises(BadInput, match=r"-c Nmae: there is no such column \(did you mean Name\?\)"):
        printed(shape, ["Nmae"])


def test_a_record_without_columns_is_printed_whole_whatever_is_asked(printed):
    assert json.loads(printed("json", ["Name"], Report({"a": 1}, (), ()))) == {"a": 1}


def test_nothing_is_wrapped_or_coloured_where_there_is_no_terminal(printed):
    wide = Report(None, ("Name",), [("x" * 5000,)], caption="y" * 5000)
    lines = printed("table", report=wide).splitlines()
    assert any("x" * 5000 in line for line in lines)
    assert lines[-1] == "y" * 5000
    assert "\x1b" not in "".join(lines)


def test_a_console_of_a_pipe_has_no_colours_even_if_the_environment_wants_some(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    console().print("text", style="red")
    assert capsys.readouterr().out == "text\n"


class Odd:
    def __str__(self):
        return "odd"


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (float("nan"), None),
        (float("-inf"), None),
        (np.float64(1.5), 1.5),
        (np.float64("nan"), None),
        (np.int64(3), 3),
        (np.bool_(True), True),
        ({1: (2, {3})}, {"1": [2, [3]]}),
        (Odd(), "odd"),
        (frozenset(), []),
    ],
)
def test_everything_becomes_plain_json(value, found):
    assert plain(value) == found
    json.dumps(plain(value), allow_nan=False)


SIZE = {"id": "7", "memory_mb": 64, "extra_specs": {"hw:cpu_policy": "shared", "a": "b"}, "description": None}


@pytest.mark.parametrize(
    ("shape", "wanted", "found"),
    [
        ("value", ["id"], "7\n"),
        ("value", ["memory_mb", "id"], "64\n7\n"),
        ("value", ["extra_specs", "description"], "hw:cpu_policy=shared, a=b\n-\n"),
        ("csv", ["id"], "Field,Value\nid,7\n"),
        ("json", ["memory_mb", "absent"], '{\n  "memory_mb": 64,\n  "absent": null\n}\n'),
    ],
)
def test_columns_of_one_object_are_its_fields(printed, shape, wanted, found):
    """D31: as with openstackclient, `-c id -f value` prints the id alone."""
    assert printed(shape, wanted, record_report(SIZE)) == found
