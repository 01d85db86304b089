# SPDX-License-Identifier: Apache-2.0
"""scheduler_json_config_location: spec/drivers-and-rpc.md 1.1."""

import json
import os

import pytest
from tests.clocks import HandClock

from roost.scheduler.manager import MOST_BYTES, JsonOptionsFile


@pytest.fixture
def clock():
    return HandClock()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "options.json"


def write(path, text, age):
    """Write a file whose time of change is `age` seconds."""
    path.write_text(text if isinstance(text, str) else json.dumps(text))
    os.utime(path, (age, age))


def test_without_a_path_there_are_no_options(clock):
    assert JsonOptionsFile("", clock).values() == {}


def test_the_file_is_read_at_the_first_question(path, clock):
    write(path, {"limit": 3}, age=1)
    assert JsonOptionsFile(path, clock).values() == {"limit": 3}


@pytest.mark.parametrize(("seconds", "limit"), [(0, 3), (299.9, 3), (300, 4), (1000, 4)])
def test_it_is_looked_at_again_after_five_minutes(path, clock, seconds, limit):
    write(path, {"limit": 3}, age=1)
    options = JsonOptionsFile(path, clock)
    options.values()
    write(path, {"limit": 4}, age=2)
    clock.seconds += seconds
    assert options.values() == {"limit": limit}


@pytest.mark.parametrize(("age", "limit"), [(9, 3), (10, 3), (11, 4)])
def test_it_is_read_again_only_if_it_is_younger(path, clock, age, limit):
    write(path, {"limit": 3}, age=10)
    options = JsonOptionsFile(path, clock)
    options.values()
    write(path, {"limit": 4}, age=age)
    clock.seconds += 300
    assert options.values() == {"limit": limit}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "it is no JSON"),
        ("", "it is no JSON"),
        ("[1]", "it holds a list, not an object"),
        ("null", "it holds a NoneType"),
        ('{"a": ' * 70 + "1" + "}" * 70, "it is nested deeper than 64 levels"),
        ("[" * 200_000, "it is nested deeper than 64 levels"),
        ('{"a": "' + "x" * MOST_BYTES + '"}', "it is larger than 1 MiB"),
        ('{"a": ' + "9" * 5000 + "}", "digits"),
    ],
    ids=["cut off", "empty", "list", "null", "deep", "deeper than Python", "large", "long number"],
)
def test_a_file_that_cannot_be_used_counts_as_empty_and_is_told_once(path, clock, caplog, text, message):
    write(path, {"limit": 3}, age=1)
    options = JsonOptionsFile(path, clock)
    options.values()
    write(path, text, age=2)
    for _ in range(3):
        clock.seconds += 300
        assert options.values() == {}
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert message in caplog.text
    write(path, {"limit": 5}, age=3)
    clock.seconds += 300
    assert options.values() == {"limit": 5}


def test_bytes_that_are_no_text_count_as_empty(path, clock, caplog):
    path.write_bytes(b"\xff\xfe\xfd")
    assert JsonOptionsFile(path, clock).values() == {}
    assert "it is no JSON" in caplog.text


def test_a_file_that_is_not_there_has_no_options_until_it_is(path, clock, caplog):
    options = JsonOptionsFile(path, clock)
    assert options.values() == {}
    assert "cannot be read" in caplog.text
    write(path, {"limit": 3}, age=1)
    assert options.values() == {}
    clock.seconds += 300
    assert options.values() == {"limit": 3}


def test_a_file_that_is_gone_leaves_its_options_as_they_were(path, clock, caplog):
    write(path, {"limit": 3}, age=1)
    options = JsonOptionsFile(path, clock)
    options.values()
    path.unlink()
    clock.seconds += 300
    assert options.values() == {"limit": 3}
    assert "its options stay as they were" in caplog.text


def test_what_is_no_file_is_not_opened(tmp_path, clock, caplog):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert JsonOptionsFile(pipe, clock).values() == {}
    assert JsonOptionsFile(tmp_path, clock).values() == {}
    assert caplog.text.count("it is no file") == 2


def test_nobody_changes_what_others_see(path, clock):
    write(path, {"limit": 3}, age=1)
    with pytest.raises(TypeError):
        JsonOptionsFile(path, clock).values()["limit"] = 4
