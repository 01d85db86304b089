# SPDX-License-Identifier: Apache-2.0
"""Passwords do not reach the log, whatever they are made of."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.services.logs import is_secret_name, redact_secrets

ODD = st.text(st.characters(codec="utf-8", exclude_characters=" \t\n\r\f\v"), min_size=1, max_size=30)
PASSWORDS = ODD.map(lambda text: f"Tr0ub4dor{text}&3")
WORDS = st.text(max_size=40)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("rabbit://nova:secr3t@mq:5672/", "rabbit://nova:***@mq:5672/"),
        ("cannot reach postgresql://roost:p@ss@db/roost now", "cannot reach postgresql://roost:***@db/roost now"),
        ("rabbit://a:one@mq1:5672,b:two@mq2:5672/", "rabbit://a:***@mq2:5672/"),
        ("http://:hidden@proxy", "http://:***@proxy"),
        ("'mysql+pymysql://u:x/y@h'", "'mysql+pymysql://u:***@h'"),
        ("password=abc next", "password=*** next"),
        ("{'admin_password': 'a b', 'x': 1}", "{'admin_password': ***, 'x': 1}"),
        ("auth_token: abc, more", "auth_token: ***, more"),
    ],
)
def test_a_password_is_shown_as_three_stars(text, shown):
    assert redact_secrets(text) == shown


@pytest.mark.parametrize("text", ["http://host:80/path", "mail a@b", "sqlite:////var/x.db", "12:30 a@b ://", ""])
def test_what_holds_no_password_stays_as_it_is(text):
    assert redact_secrets(text) == text


@given(WORDS, st.sampled_from(["rabbit", "postgresql", "mysql+pymysql", "http"]), PASSWORDS, WORDS)
def test_no_password_of_an_address_is_left(before, scheme, password, after):
    text = f"{before} {scheme}://user:{password}@host/path {after}"
    assert password not in redact_secrets(text)


@given(PASSWORDS, PASSWORDS)
def test_no_password_of_a_list_of_addresses_is_left(first, second):
    shown = redact_secrets(f"rabbit://u:{first}@one:5672,v:{second}@two:5672/")
    assert first not in shown
    assert second not in shown


@pytest.mark.parametrize("name", ["password", "admin_password", "auth_token", "Secret", "attestation_auth_blob"])
def test_some_names_say_that_the_value_is_secret(name):
    assert is_secret_name(name)
    assert not is_secret_name("passing_hosts")


@pytest.mark.parametrize("piece", ["://a:", "password", "@", "x@://u:", "password=", "token '"])
def test_no_text_makes_it_slow(piece):
    text = piece * (32_768 // len(piece))
    started = time.perf_counter()
    redact_secrets(text)
    assert time.perf_counter() - started < 1.0
