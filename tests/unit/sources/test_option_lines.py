# SPDX-License-Identifier: Apache-2.0
"""Options of a fleet file have their line at hand: the file is read once, whatever is asked about them later."""

import json
from pathlib import Path

import pytest
import yaml

from roost import Fleet, Scheduler
from roost.errors import FleetError, OptionError
from roost.sources import documents
from roost.sources.documents import line_of, parse_document

OPTIONS = {
    "filter_scheduler": {"ram_weight_multiplier": 2.0, "host_subset_size": 1, "max_io_ops_per_host": 8},
    "scheduler": {"max_attempts": 3},
    "DEFAULT": {"ram_weight_multiplier": 1.0},
}
FLEET = {"hosts": [{"host": "n[1-3]"}], "options": OPTIONS, "flavors": [{"name": "s", "vcpus": 1, "memory_mb": 1}]}


def write(path, data):
    path.write_text(json.dumps(data, indent=1) if path.suffix == ".json" else yaml.safe_dump(data, sort_keys=False))
    return path


@pytest.fixture
def work(monkeypatch):
    """How often a file was read, and how often a text was read once more to find a line."""
    counted = {"reads": 0, "searches": 0}

    def counting(what, call):
        def count(*arguments, **named):
            counted[what] += 1
            return call(*arguments, **named)

        return count

    monkeypatch.setattr(documents, "_read_bytes", counting("reads", documents._read_bytes))
    monkeypatch.setattr(yaml, "compose", counting("searches", yaml.compose))
    monkeypatch.setattr(documents, "_line_in_json", counting("searches", documents._line_in_json))
    return counted


@pytest.mark.parametrize("name", ["f.yaml", "f.json"])
def test_the_file_is_read_once_however_many_options_and_schedulers_there_are(tmp_path, work, name):
    path = write(tmp_path / name, FLEET)
    fleet = Fleet.load(path)
    for _ in range(3):
        Scheduler(fleet)
    assert work == {"reads": 1, "searches": 0}


@pytest.mark.parametrize("name", ["f.yaml", "f.json"])
def test_a_wrong_option_is_reported_with_its_line_without_reading_again(tmp_path, work, name):
    wrong = {**OPTIONS, "scheduler": {"max_attempts": 0}}
    path = write(tmp_path / name, {**FLEET, "options": wrong})
    line = 1 + next(at for at, each in enumerate(path.read_text().splitlines()) if "max_attempts" in each)
    fleet = Fleet.load(path)
    with pytest.raises(OptionError, match=rf"{path}, line {line}: \[scheduler\] max_attempts = 0"):
        Scheduler(fleet)
    assert work == {"reads": 1, "searches": 0}


def all_lines(text, name):
    _, lines = parse_document(text, Path(name))
    return lines


TEXTS = {
    "block.yaml": "hosts: []\noptions:\n  a:\n    x: 1\n\n    'y z': [2,\n      3]\n  b: {p: 1,\n      q: 2}",
    "flow.yaml": "{options: {a: {x: 1,\n 'y z': 2}, b:\n {p: 1}}}",
    "first.yaml": "options: {a: {x: 1}}\nhosts:\n - {host: h, stats: {options: {a: {x: 2}}}}\n",
    "nested.yaml": "hosts:\n - host: h\n   stats:\n     options: {a: {x: 2}}\noptions:\n\n  a: {x: 1}\n",
    "empty.yaml": "options:\n",
    "f.json": '{"hosts": [],\n "options":\n {"a": {"x": 1,\n\n "y z": [{"p": 1},\n 2]},\n "b": {}}}',
    "nested.json": '{"hosts": [{"stats": {"options": {"a": 1}}}],\n\n"options": {"a": {\n"x": 1}}, "images": null}\n',
    "null.json": '{"options": null}',
}


@pytest.mark.parametrize("name", TEXTS)
def test_the_lines_that_are_noted_are_those_that_a_search_finds(name):
    text = TEXTS[name]
    lines = all_lines(text, name)
    assert lines[("", "")] == line_of(text, "options")
    for (section, option), line in lines.items():
        if section:
            assert line == line_of(text, f"options.{section}.{option}" if option else f"options.{section}")
    (data, _) = parse_document(text, Path(name))
    sections = data["options"] or {}
    keys = {(section, option) for section, entries in sections.items() for option in ("", *entries)}
    assert lines.keys() == keys | {("", "")}


def test_an_option_behind_an_alias_has_the_line_of_its_section(tmp_path):
    path = tmp_path / "f.yaml"
    path.write_text("hosts: []\nimages: []\noptions:\n  DEFAULT: &x {}\n  scheduler: &y\n    max_attempts: 3\n")
    assert Fleet.load(path).options.place("scheduler", "max_attempts") == f"{path}, line 6"
    path.write_text("options:\n  filter_scheduler: &x {host_subset_size: 1}\n\n  scheduler: *x\n")
    assert Fleet.load(path).options.place("scheduler", "host_subset_size") == f"{path}, line 4"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1,}', "line 1: not JSON: "),
        ('{"a": 1 "b": 2}', "line 1: not JSON: Expecting ',' delimiter"),
        ('{"a" 1}', "line 1: not JSON: Expecting ':' delimiter"),
        ('{"a": 1}\n{}', "line 2: not JSON: Extra data"),
        ('{"a": 1', "line 1: not JSON: Expecting ',' delimiter"),
        ('{"a": }', "line 1: not JSON: Expecting value"),
        ('{"a": [1,\n2 3]}', "line 2: not JSON: Expecting ',' delimiter"),
        ("{a: 1}", "line 1: not JSON: Expecting property name enclosed in double quotes"),
        ('{"a": 1,\n"a": 2}', "line 2: the key 'a' is there twice in one object"),
        ('{"b": {"a": 1,\n"a": 2}}', "line 2: the key 'a' is there twice in one object"),
        ('{"a": ' + "9" * 5000 + "}", "line 1: a number of thousands of digits is not an amount"),
        ('{"a": ' + "[" * 100_000 + "}", "f.json: nested too deeply"),
    ],
)
def test_a_mistake_in_json_is_reported_as_ever(text, message):
    with pytest.raises(FleetError) as caught:
        parse_document(text, Path("f.json"))
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["{}", " {} ", "[]", "5", '"x"', "null", '{"a": {}}', ' {"a" : 1 , "b":[ ]} \n'])
def test_json_is_what_the_json_module_says(text):
    assert parse_document(text, Path("f.json"))[0] == json.loads(text)
