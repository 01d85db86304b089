# SPDX-License-Identifier: Apache-2.0
"""One record is one line, whatever is in it."""

import json
import logging
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.contextvars import bound_contextvars

from roost.services.logs import MAX_TEXT, JsonFormatter, TextFormatter

HEAD = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO some\.logger "
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.dictionaries(st.text(min_size=1, max_size=12), VALUES, max_size=5)


def of_library(message, *arguments, raised=None):
    return logging.LogRecord("some.logger", logging.INFO, "/a/b.py", 7, message, arguments, raised)


def of_structlog(event, **fields):
    record = of_library({"event": event} | fields)
    record._logger = None
    return record


def text(record):
    return TextFormatter().format(record)


def from_json(record):
    return json.loads(JsonFormatter().format(record))


def raised_here():
    try:
        raise ValueError("broken\nin two rabbit://u:hunter2@h")
    except ValueError:
        return sys.exc_info()


def test_a_sentence_has_time_level_and_logger_before_it():
    assert re.fullmatch(HEAD + "3 hosts are up", text(of_library("%d hosts are %s", 3, "up")))


def test_an_event_has_its_values_behind_it():
    line = text(of_structlog("placed", instances=2, hosts="h1 h2", took=0.4, why=None, zone="az1"))
    assert line.endswith(' placed instances=2 hosts="h1 h2" took=0.4 why=null zone=az1')


def test_the_request_stands_in_brackets_before_the_message_and_what_else_is_bound_behind_it():
    with bound_contextvars(request_id="req-1", user="u"):
        assert re.fullmatch(HEAD + r"\[req-1\] hello user=u", text(of_library("hello")))
        assert from_json(of_library("hello"))["request_id"] == "req-1"


def test_positions_in_an_event_are_filled():
    assert text(of_structlog("%s of %s", positional_args=(1, 2))).endswith(" 1 of 2")


def test_json_has_the_same():
    record = of_structlog("placed", instances=2, hosts=["h1", "h2"], level="own")
    found = from_json(record)
    assert found.pop("time").endswith("Z")
    assert found == {
        "level": "INFO",
        "logger": "some.logger",
        "message": "placed",
        "instances": 2,
        "hosts": ["h1", "h2"],
        "level_": "own",
    }


@pytest.mark.parametrize("form", [TextFormatter, JsonFormatter])
def test_a_traceback_is_part_of_the_line_and_holds_no_password(form):
    for record in (of_library("oops", raised=raised_here()), of_structlog("oops", exc_info=raised_here())):
        line = form().format(record)
        assert "\n" not in line
        assert "ValueError: broken\\nin two" in line.replace("\\\\", "\\")
        assert "hunter2" not in line


def test_an_exception_may_be_given_itself_or_be_the_current_one():
    error = ValueError("this one")
    assert "ValueError: this one" in text(of_structlog("oops", exc_info=error))
    try:
        raise error
    except ValueError:
        assert "ValueError: this one" in text(of_structlog("oops", exc_info=True))


def test_colours_and_cursor_movements_are_escaped():
    assert text(of_library("\x1b[31mred\r\x00\u2028\u202e")).endswith(r"\x1b[31mred\r\x00\u2028\u202e")


class Angry:
    def __str__(self):
        raise RuntimeError("no")

    __repr__ = __str__


@pytest.mark.parametrize(
    "record", [of_library("%d hosts", "many"), of_library("%s", Angry()), of_structlog("e", value=Angry())]
)
@pytest.mark.parametrize("form", [TextFormatter, JsonFormatter])
def test_a_record_that_cannot_be_shown_says_where_it_came_from(form, record):
    line = form().format(record)
    assert "a record that cannot be shown" in line
    assert "/a/b.py" in line


def test_a_value_that_holds_itself_is_shown_as_text_at_some_depth():
    endless = []
    endless.append(endless)
    assert "[...]" in text(of_structlog("e", value=endless))


def test_a_long_text_is_cut_and_says_so():
    line = text(of_library("x" * 100_000))
    assert len(line) < MAX_TEXT + 100
    assert line.endswith("... (100000 characters)")


def test_a_password_at_the_cut_is_hidden():
    address = "rabbit://user:hunter2hunter2@host"
    for start in range(MAX_TEXT - len(address), MAX_TEXT):
        assert "hunter" not in text(of_library("x" * (start - 1) + " " + address))


@given(st.text(), FIELDS)
def test_text_is_one_printable_line(message, fields):
    for record in (of_library("%s", message), of_structlog(message, **fields)):
        line = text(record)
        assert line.isprintable()
        assert len(line.splitlines()) == 1
        assert re.match(HEAD.rstrip(), line)


@given(st.text(), FIELDS)
def test_json_is_one_line_that_can_be_read_back(message, fields):
    for record in (of_library("%s", message), of_structlog(message, **fields)):
        line = JsonFormatter().format(record)
        assert len(line.splitlines()) == 1
        assert line.isascii()
        found = json.loads(line, parse_constant=pytest.fail)
        assert (found["level"], found["logger"]) == ("INFO", "some.logger")


SECRETS = st.text("abcdefXYZ0123456789/:@%!$", min_size=1, max_size=20).map(lambda text: f"hunter{text}2")


@given(SECRETS, st.text(max_size=20), st.sampled_from([TextFormatter, JsonFormatter]))
def test_a_secret_never_appears_wherever_it_stands(secret, other, form):
    address = f"rabbit://user:{secret}@host"
    with bound_contextvars(broker=address):
        for record in (
            of_library("%s to %s", other, address),
            of_library(f"{other} {address}"),
            of_structlog(f"{other} {address}", at=address, many=[other, {"deep": (address,)}], password=secret),
            of_structlog(other, **{address: 1, "settings": {"admin_password": secret, address: 2}}),
            of_structlog(other, exc_info=ValueError(address), anything=ValueError(address)),
        ):
            assert secret not in form().format(record)
