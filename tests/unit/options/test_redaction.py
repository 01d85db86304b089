# SPDX-License-Identifier: Apache-2.0
"""Secrets stay secret, whatever they look like."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.options.declare import Declared
from roost.options.names import redact

PLAIN = Declared("DEFAULT", "plain", str, None, "")
SECRET = Declared("DEFAULT", "secret", str, None, "", secret=True)
ADDRESS = Declared("DEFAULT", "transport_url", str, None, "", secret=True)


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, ""), (True, "true"), (3, "3"), (0.5, "0.5"), (("a", "b"), "a, b"), ((), ""), ("x", "x")],
)
def test_a_value_is_redact_as_a_file_would_say_it(value, text):
    assert redact(PLAIN, value) == text


@pytest.mark.parametrize(("value", "text"), [("hush", "***"), ("", ""), (None, ""), ("a://b", "***")])
def test_a_secret_is_not_redact(value, text):
    assert redact(SECRET, value) == text


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("rabbit://", "rabbit://"),
        ("rabbit://h:5672/v", "rabbit://h:5672/v"),
        ("rabbit://u:pw@h/v", "rabbit://u:***@h/v"),
        ("rabbit://u:pw@h1:5672,u:pw@h2:5672/v", "rabbit://u:***@h1:5672,u:***@h2:5672/v"),
        ("rabbit://u:pw@[::1]:5672/", "rabbit://u:***@[::1]:5672/"),
        ("redis://:pw@h", "redis://:***@h"),
        ("mysql+pymysql://u:pw@h/db?charset=utf8&password=pw", "mysql+pymysql://u:***@h/db?***"),
        ("sqlite:////var/lib/roost.db", "sqlite:////var/lib/roost.db"),
        ("rabbit://u:p@pw@h/", "rabbit://u:***@h/"),
        ("rabbit://u:p@x/pw@h/", "rabbit://u:***@h/"),
        ("rabbit://u:a,pw@h/", "rabbit://u:***@h/"),
        ("rabbit://u:pw?pw@h/", "rabbit://u:***@h/"),
        ("rabbit://u:my pw@h/", "rabbit://u:***@h/"),
        ("rabbit://u:pw", "rabbit://***"),
        ("u:pw@host", "***"),
    ],
)
def test_of_an_address_all_but_the_password_is_redact(address, text):
    assert redact(ADDRESS, address) == text


def test_a_password_in_an_address_is_hidden_where_nobody_declared_a_secret():
    assert redact(PLAIN, "https://u:pw@h/path?a=b") == "https://u:***@h/path?a=b"


MARK = "Zebra9"
ANYTHING = st.text(st.sampled_from("ab1:/@?,#%&=$ .-[]_\n"), max_size=6)


@given(ANYTHING, ANYTHING, st.sampled_from(["h", "h:5672", "[::1]:1"]), st.sampled_from(["", "/", "/v", "/v?a=b"]))
def test_no_part_of_a_password_is_ever_redact(before, after, host, path):
    assert MARK not in redact(ADDRESS, f"rabbit://user:{before}{MARK}{after}@{host}{path}")
